"""A host's side: it takes the hub's commands, says that it is there, and answers questions."""
