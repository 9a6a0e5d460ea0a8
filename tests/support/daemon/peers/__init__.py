"""Three supervisors behind one small interface, each a real daemon with a real configuration: ours and its peers."""
