"""Answers to commands that only inform: status, logs, audit, why, history."""
