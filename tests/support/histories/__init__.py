"""Random histories of the engine, and the invariants that judge them."""
