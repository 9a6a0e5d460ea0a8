"""The command language: catalog, grammar, arguments, targets, labels and flag files, as pure values.

It imports only `common`. Carrying out a command is the work of `jobs`, `code` and `intake`.
"""
