"""`supervisor doctor`, the core's checks: each passes, or fails and says what to do."""
