"""Code changes: update, rollback and undo, from the plan and its preview to workers restarted on the new code."""
