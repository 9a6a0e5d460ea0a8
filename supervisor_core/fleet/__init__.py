"""The fleet: one hub and many hosts over NATS JetStream: subjects, keys, rights, server, connection, membership.

Only `connection.py` and `messages.py` use nats-py, and only `keys.py` uses nkeys; all import it late. `daemon`,
`doctor` and `cli` may import this folder.
"""
