"""Several real parts together: processes, files, databases."""
