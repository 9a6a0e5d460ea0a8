"""The events reference, from the log events, the event types and the audit actions."""

from __future__ import annotations

from supervisor_core.commands.catalog import CATALOG
from supervisor_core.common.events import QUEUE_SIZE, EventType
from supervisor_core.common.log_events import LogEvent
from supervisor_core.storage.audit.chain import OTHER_ACTIONS
from tests.reference.markdown import attribute_docs, code, fill, table


def page() -> str:
    docs = attribute_docs(EventType)
    handled = (each for each in CATALOG.values() if each.handler)
    actions = [(code(each.audit_action), f"`{each.name}` ran on a worker.") for each in handled]
    actions += [(code(name), text) for name, text in OTHER_ACTIONS.items()]
    return fill(
        "events.md",
        {
            "events": table(("type", "event"), ((code(each), docs[each.name]) for each in EventType)),
            "log events": table(("event", "level", "reported when", "fields"), map(_logged, LogEvent)),
            "actions": table(("action", "recorded when"), actions),
            "queue": str(QUEUE_SIZE),
        },
    )


def _logged(event: LogEvent) -> tuple[str, str, str, str]:
    return code(event.event), event.level, event.description, ", ".join(map(code, event.fields))
