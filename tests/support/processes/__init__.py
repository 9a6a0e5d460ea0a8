"""Process backends, probe servers and crashing workers for tests."""
