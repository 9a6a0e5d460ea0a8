"""The door to pip: the packages of a worker's Python, read, installed and restored."""
