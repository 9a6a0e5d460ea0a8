"""Commands that only inform, given to `send`: each is what another subcommand shows."""

from __future__ import annotations

from supervisor_core.cli import main
from supervisor_core.domain.catalog import CATALOG, FAMILIES, find
from supervisor_core.domain.command import Command
from supervisor_core.domain.manual import help_overview, help_text
from supervisor_core.gateway import NotBuiltError


def inform(command: Command, config: str | None, *, as_json: bool) -> int:
    """Show it."""
    definition = CATALOG[command.name]
    if command.name in ("help", "overview"):
        print(_help(str(command.params.get("topic") or "")))
        return 0
    if not definition.built:
        raise NotBuiltError(f"{definition.name} is known, but not built yet.")
    if command.name.startswith("monitoring "):
        from supervisor_core.cli.monitoring import monitoring

        return monitoring(command.name, config, as_json=as_json)
    words = ["--config", config] if config else []
    words += ["--json"] if as_json else []
    if command.name == "status":
        return main(["status", *words, *([command.target] if command.target else [])])
    for option, value in (
        ("--worker", command.target),
        ("--issuer", command.params.get("by")),
        ("--since", command.params.get("since")),
        ("--limit", command.params.get("limit")),
    ):
        words += [option, str(value)] if value else []
    return main(["audit", *words])


def _help(topic: str) -> str:
    definition = find(topic)
    if definition is not None:
        return help_text(definition)
    if topic in FAMILIES:
        return "\n\n".join(help_text(each) for each in FAMILIES[topic])
    return help_overview(CATALOG.values())
