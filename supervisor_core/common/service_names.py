"""The names of a daemon's services, in the order in which `status` shows them."""

QUEUE_PROCESSOR = "queue_processor"
DISPATCHER = "orchestrator_dispatcher"
CONFIGURATION = "configuration"
HEARTBEAT = "heartbeat"
FORWARDER = "forwarder"
CHAT = "slack"
SCHEDULER = "scheduler"
METRICS = "metrics"

SERVICES = (QUEUE_PROCESSOR, DISPATCHER, HEARTBEAT, SCHEDULER, FORWARDER, CHAT, METRICS)
