"""The control door of a running daemon: its address, client and server."""
