"""The names of a daemon's services, in the order in which `status` shows them."""

QUEUE_PROCESSOR = "queue_processor"
DISPATCHER = "orchestrator_dispatcher"
CONFIGURATION = "configuration"
HEARTBEAT = "heartbeat"
FORWARDER = "forwarder"
CHAT = "slack"
SCHEDULER = "scheduler"
LATER = (HEARTBEAT, SCHEDULER, FORWARDER, CHAT, "metrics")
"""Not in every daemon."""

SERVICES = (QUEUE_PROCESSOR, DISPATCHER, *LATER)
