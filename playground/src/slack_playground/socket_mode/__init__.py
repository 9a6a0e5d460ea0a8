"""Socket Mode: connections, envelopes, acknowledgements, redelivery, and the payloads that go out over them."""
