"""`supervisor demo`: a local Slack, a real supervisor and a real worker at once, to look at or on a guided tour."""
