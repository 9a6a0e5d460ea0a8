"""The hub's side: it sends commands, follows its hosts, and asks them. No module here is imported by a host."""
