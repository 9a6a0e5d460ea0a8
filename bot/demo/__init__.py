"""`supervisor demo`: a local Slack, a supervisor and a worker, to try in the browser or as a tour."""
