"""Git: history through GitPython, changes through our own runner."""
