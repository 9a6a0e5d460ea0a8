"""The fleet: one hub and many hosts over NATS JetStream.

`hub/` and `host.py` are the two sides; `transport/` is the server and the connection to it, `members.py` says who
belongs. Only `transport/` uses nats-py, and only `keys.py` uses nkeys; both import it late. `daemon`, `doctor` and
`cli` may import this folder.
"""
