"""HTTP mode: envelopes posted to the app's request URL, signed as Slack signs them, instead of sent over a socket."""
