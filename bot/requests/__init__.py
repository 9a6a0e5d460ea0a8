"""Requests: commands, votes, alert actions and forms, as people send them."""
