"""Alert conditions, deliveries and receivers for tests."""
