"""The execution of added commands, those of the configuration and of plug-ins, and the form of their output.

Their definitions belong to `config` and `plugins`, and the way of a command to its handler is that of all commands.
"""
