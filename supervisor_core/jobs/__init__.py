"""Jobs: one row for each command and worker, moved by steps; and the handlers for pause, resume and restart."""
