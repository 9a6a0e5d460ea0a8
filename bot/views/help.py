"""Help: what its reader may do here, a line for each command; and all about one. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bot.views.text import escape, fit
from bot.views.told import LONGEST, Content, context, listing, section
from supervisor_core.domain.catalog import FAMILIES, find
from supervisor_core.domain.definitions import CommandDefinition, Risk
from supervisor_core.domain.manual import EXAMPLE, help_text

TITLES: Mapping[Risk, str] = {
    Risk.READS: "To see",
    Risk.CHANGES: "To act",
    Risk.DANGEROUS: "To change the code that a worker runs",
}


def help_of(topic: str, definitions: Sequence[CommandDefinition], worker: str = EXAMPLE) -> Content:
    """All about a topic; without one, these commands. `worker`: one of this host, for the examples."""
    definition = find(topic)
    if definition is not None:
        return listing(help_text(definition, worker))
    if topic in FAMILIES:
        return listing("\n\n".join(help_text(each, worker) for each in FAMILIES[topic]))
    said, blocks = ["What you can ask me for:"], []
    for risk, title in TITLES.items():
        lines = [_line(each) for each in definitions if each.risk is risk]
        if lines:
            blocks.append(section("\n".join([f"*{title}*", *lines])))
            said += lines
    more = "`/supervisor help COMMAND` says more about one. The same words work in a mention and in a direct message."
    blocks.append(context(more))
    return {"text": fit("\n".join(said), LONGEST), "blocks": blocks}


def _line(definition: CommandDefinition) -> str:
    return f"• `/supervisor {escape(definition.usage)}`: {escape(definition.summary)}".replace(" `: ", "`: ")
