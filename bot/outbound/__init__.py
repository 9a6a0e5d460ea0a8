"""Outbound: message content, delivery, rate limits, files, and App Home."""
