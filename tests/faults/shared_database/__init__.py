"""The shared database, with the tables that its owner has."""
