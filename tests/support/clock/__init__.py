"""Clocks that a test moves, and waiting without sleeping."""
