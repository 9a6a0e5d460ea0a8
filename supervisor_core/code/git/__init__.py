"""The door to git: history through GitPython, changes through our own runner."""
