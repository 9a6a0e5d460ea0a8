"""The execution of commands that the configuration or a plug-in adds, and the format of their output.

Their definitions belong to `config` and `plugins`, and the way of a command to its handler is that of all commands.
"""
