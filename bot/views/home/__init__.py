"""App Home: the operator's page and its sections."""
