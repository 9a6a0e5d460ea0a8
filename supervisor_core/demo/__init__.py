"""A small worker and its code repository, for the demo and the tests."""
