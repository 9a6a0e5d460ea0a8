"""`supervisor init`: asks the few questions that there are, and writes the files of a host."""
