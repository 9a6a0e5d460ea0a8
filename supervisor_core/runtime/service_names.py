"""The services of a daemon, in the order in which `status` shows them."""

QUEUE_PROCESSOR = "queue_processor"
DISPATCHER = "orchestrator_dispatcher"
FORWARDER = "forwarder"
CHAT = "slack"
HEARTBEAT = "heartbeat"
CONFIGURATION = "configuration"
LATER = (HEARTBEAT, "scheduler", FORWARDER, CHAT, "metrics")
"""Not in every daemon: not built yet, or not enabled."""

SERVICES = (QUEUE_PROCESSOR, DISPATCHER, *LATER)
