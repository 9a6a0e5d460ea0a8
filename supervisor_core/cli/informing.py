"""Commands that only inform, given to `send`: each is what another subcommand shows."""

from __future__ import annotations

from supervisor_core.cli import main
from supervisor_core.config import load_supervisor_config
from supervisor_core.config.context import example_worker
from supervisor_core.domain.catalog import CATALOG, FAMILIES, find
from supervisor_core.domain.command import Command
from supervisor_core.domain.manual import help_overview, help_text


def inform(command: Command, config: str | None, *, as_json: bool) -> int:
    """Show it."""
    if command.name in ("help", "overview"):
        print(_help(str(command.params.get("topic") or ""), example_worker(load_supervisor_config(config))))
        return 0
    if command.name.startswith("monitoring "):
        from supervisor_core.cli.monitoring import monitoring

        return monitoring(command.name, config, as_json=as_json)
    if command.name.startswith("schedule "):
        from supervisor_core.cli.schedules import scheduling

        return scheduling(command, config, as_json=as_json)
    if command.name in ("mute", "unmute"):
        from supervisor_core.cli.mute_command import act

        return act(command, config, as_json=as_json)
    if command.name in ("why", "history"):
        from supervisor_core.cli import explaining, history

        return {"why": explaining.why, "history": history.history}[command.name](command, config, as_json=as_json)
    words = ["--config", config] if config else []
    words += ["--json"] if as_json else []
    if command.name in ("teams", "logs"):
        from supervisor_core.cli import looking

        return {"teams": looking.teams, "logs": looking.logs}[command.name](command, config, as_json=as_json)
    if command.name == "audit":
        return main(["audit", *words, *_filters(command)])
    name = "status" if command.name == "why" else command.name  # which says why as well
    return main([name, *words, *([command.target] if command.target else [])])


def _filters(command: Command) -> list[str]:
    options = {
        "--worker": command.target,
        "--issuer": command.params.get("by"),
        "--command": command.params.get("command"),
        "--since": command.params.get("since"),
        "--limit": command.params.get("limit"),
    }
    return [word for option, value in options.items() if value for word in (option, str(value))]


def _help(topic: str, worker: str) -> str:
    definition = find(topic)
    if definition is not None:
        return help_text(definition, worker)
    if topic in FAMILIES:
        return "\n\n".join(help_text(each, worker) for each in FAMILIES[topic])
    return help_overview(CATALOG.values())
