"""Worker facts, histories and terminal pictures for tests."""
