"""`supervisor status`: the live state as tables, plain lines or JSON."""
