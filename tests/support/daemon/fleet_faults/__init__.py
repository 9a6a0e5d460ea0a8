"""A long story of a fleet: its network, the operators who send commands meanwhile, and the checker of all records."""
