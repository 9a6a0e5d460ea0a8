"""`supervisor init` and `supervisor import`, as programs."""
