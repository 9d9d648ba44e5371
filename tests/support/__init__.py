"""What several tests need: doubles of time, and ways to wait for the world without sleeping."""
