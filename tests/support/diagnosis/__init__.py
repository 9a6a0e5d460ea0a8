"""Worker facts, history charts and terminal pictures for tests."""
