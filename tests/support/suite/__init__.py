"""What the suite needs to run: the order of its tests, and the pages that it checks."""
