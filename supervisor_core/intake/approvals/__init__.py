"""Approvals: requested, voted on, bound to what people saw, and carried out once."""
