"""A large fleet on a small rate limit for a long time, with or without leases: `make soak`."""
