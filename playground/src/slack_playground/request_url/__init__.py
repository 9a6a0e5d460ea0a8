"""Apps that serve HTTP: envelopes posted to the request URL, signed as Slack signs them, and OAuth."""
