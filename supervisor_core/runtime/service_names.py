"""The services of a daemon, in the order in which `status` shows them."""

QUEUE_PROCESSOR = "queue_processor"
DISPATCHER = "orchestrator_dispatcher"
CHAT = "slack"
LATER = ("heartbeat", "scheduler", "forwarder", CHAT, "metrics")
"""Known, but not built yet."""

SERVICES = (QUEUE_PROCESSOR, DISPATCHER, *LATER)
