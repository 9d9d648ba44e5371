"""The engine over a test's database, driven by hand: commands, steps, events."""
