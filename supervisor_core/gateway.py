"""The one way in for commands, whichever door they came through."""
