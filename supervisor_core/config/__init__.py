"""The configuration: read, checked, explained where it is wrong, and compared with another one."""
