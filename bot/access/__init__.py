"""Access: people, roles and groups, and what each may do."""
