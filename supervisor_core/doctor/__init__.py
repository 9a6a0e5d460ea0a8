"""`supervisor doctor`: the table of checks, how they run, and the checks of the core. A chat adds rows of its own."""
