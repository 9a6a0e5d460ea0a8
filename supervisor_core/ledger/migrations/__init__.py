"""The migrations, oldest first; each one is never changed again once it has been released."""
