"""Settings that were removed, and settings that contradict each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePath
from typing import Any

from supervisor_core.commands.addresses import is_address
from supervisor_core.commands.targets import ALL, PATTERN, TEAM
from supervisor_core.commands.targets import HOST as HOST_TARGET
from supervisor_core.common.text import nearest
from supervisor_core.config.fields import FLEET_NAME, FLEET_NAME_WORDS, host_id
from supervisor_core.config.raw import SettingPath, Substituted
from supervisor_core.config.schema import FolderSettings, layout_of
from supervisor_core.config.sections import quotable, settings_of
from supervisor_core.config.worker_settings import PLACEHOLDER, PLACEHOLDERS, find_placeholder_fault

HUB, HOST = "hub", "host"
"""The roles in a fleet."""

SQLITE = "sqlite"
"""The beginning of a URL that names a file, not a server."""

_OF_EMAIL = "was removed; email goes through alerts.notify, as mailtos://USER:PASSWORD@HOST?from=FROM&to=TO"
REMOVED = {
    **{f"alerts.{section}.{key}": _OF_EMAIL for section in ("webhook", "receivers") for key in ("user", "from", "to")},
    "traces": "was removed; each line of the log has the id of its command",
}
"""Settings of earlier versions, without the numbers of list items, and what replaced them."""

SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "fish", "cmd", "powershell", "pwsh"})

Finding = tuple[SettingPath, str]


def as_mapping(value: Any) -> Mapping[str, Any]:  # noqa: ANN401 (a document may hold anything)
    """A part of a document that should be a section, as one; the reader complains of anything else."""
    return value if isinstance(value, Mapping) else {}


def is_of_cornerstone(data: Mapping[str, Any]) -> bool:
    """True for a configuration of Cornerstone Archive, which has the same name and some of the same sections."""
    return {"database", "nas", "logging"} <= data.keys() and "host" in as_mapping(data["database"])


def cross_check(data: Mapping[str, Any]) -> Iterator[Finding]:
    """Find settings that contradict each other, also in a document that has other errors."""
    section = {name: as_mapping(value) for name, value in data.items()}
    workers, teams = section.get("workers", {}), section.get("teams", {})
    default = section.get("supervisor", {}).get("default_worker")
    if isinstance(default, str) and default and default not in workers:
        yield ("supervisor", "default_worker"), _describe_unknown(default, workers, "worker")
    yield from _check_folders(section.get("nas", {}))
    yield from _check_workers(workers, teams)
    for name, command in section.get("commands", {}).items():
        namesake = next((worker_id for worker_id in workers if str(worker_id).casefold() == str(name)), None)
        if namesake:
            yield ("commands", name), f"is also the name of the worker {namesake}; choose another name"
        yield from (((("commands", name, *path)), text) for path, text in _check_command(as_mapping(command)))
    yield from _check_maintenance(section.get("alerts", {}).get("maintenance"), workers, teams)
    yield from _check_fleet(section, section.get("fleet", {}).get("role"))


def _check_folders(nas: Mapping[str, Any]) -> Iterator[Finding]:
    explicit, usual = as_mapping(nas.get("folders")), layout_of(nas)
    names: dict[str, str] = {}
    for field in settings_of(FolderSettings):
        folder = explicit.get(field.name, usual.get(field.name))
        if isinstance(folder, str) and folder:
            parts = folder.replace("\\", "/").casefold().split("/")
            first = names.setdefault("/".join(part for part in parts if part not in ("", ".")), field.name)
            if first != field.name:
                key, other = (field.name, first) if field.name in explicit else (first, field.name)
                yield ("nas", "folders", key), f"is the same folder as {other}"


def _check_workers(workers: Mapping[str, Any], teams: Mapping[str, Any]) -> Iterator[Finding]:
    names: dict[str, str] = {}
    for worker_id, worker in workers.items():
        first = names.setdefault(worker_id.casefold(), worker_id)
        if first != worker_id:
            yield (
                ("workers", worker_id),
                f"differs from {first} only in case, which can lead to the same file names",
            )
        team = as_mapping(worker).get("team")
        if isinstance(team, str) and team and team not in teams:
            yield ("workers", worker_id, "team"), _describe_unknown(team, teams, "team")


def _check_command(command: Mapping[str, Any]) -> Iterator[Finding]:
    """Find arguments of a custom command that could become something else."""
    argv, parameters = command.get("argv"), as_mapping(command.get("parameters"))
    if not isinstance(argv, list) or not all(isinstance(argument, str) for argument in argv):
        return
    if not argv or not argv[0]:
        yield ("argv",), 'must begin with a program, such as ["df", "-h"]'
        return
    fixed = [name for name in PLACEHOLDERS if not (name == "worker_id" and command.get("runs") == "host")]
    for number, argument in enumerate(argv):
        if fault := _find_argument_fault(argv, number, argument, parameters, [*fixed, *parameters]):
            yield ("argv", number), fault
    used = {match[1] for argument in argv for match in PLACEHOLDER.finditer(argument)}
    yield from (
        (("parameters", name), f"isn't used: put {{{name}}} into argv") for name in parameters if name not in used
    )


def _find_argument_fault(
    argv: list[str], number: int, argument: str, parameters: Mapping[str, Any], known: list[str]
) -> str | None:
    """The reason why a value in this argument could be something else than a value; None if it can't."""
    if isinstance(argument, Substituted):
        return "has a variable, but arguments are shown to people; put the value into env"
    if fault := find_placeholder_fault(argument, known):
        return fault
    matches = [match for match in PLACEHOLDER.finditer(argument) if match[1] in parameters]
    if not matches:
        return None
    if number == 0:
        return "is the program, which can't depend on a parameter"
    if PurePath(argv[0]).name.casefold().removesuffix(".exe") in SHELLS:
        return "would be read by a shell; run the program itself, or a script of your own"
    if argument.startswith("-") and "=" not in argument[: matches[0].start()]:
        return "would let a value choose an option; write --name={value}"
    parameter, is_whole = as_mapping(parameters[matches[0][1]]), argument == matches[0][0]
    if parameter.get("type") == "flag":
        return None if is_whole else "has a flag, which must be an argument alone"
    before, is_optional = argv[number - 1], not parameter.get("required") and parameter.get("default") is None
    if is_whole and before.startswith("-") and "=" not in before and is_optional:
        return f"is left out without a value, and {before} isn't; write {before}={argument}"
    return None


def _check_maintenance(windows: Any, workers: Mapping[str, Any], teams: Mapping[str, Any]) -> Iterator[Finding]:  # noqa: ANN401
    for number, window in enumerate(windows if isinstance(windows, list) else []):
        target = as_mapping(window).get("target")
        if not isinstance(target, str) or target == ALL or target in workers or PATTERN.intersection(target):
            continue
        if target.startswith(HOST_TARGET) or is_address(target):  # hosts come and go
            continue
        path = ("alerts", "maintenance", number, "target")
        if not target.startswith(TEAM):
            yield path, _describe_unknown(target, workers, "worker")
        elif target.removeprefix(TEAM) not in teams:
            yield path, _describe_unknown(target.removeprefix(TEAM), teams, "team")


def _check_fleet(section: Mapping[str, Mapping[str, Any]], role: object) -> Iterator[Finding]:
    """Find settings that a hub or a host in a fleet can't have, or lacks."""
    if role not in (HUB, HOST):
        return
    for name in ("url", "credentials", "hub_key") if role == HOST else ("url", "credentials"):
        if section["fleet"].get(name) in ("", None):
            command = "join" if role == HOST else "init"
            yield ("fleet", name), f"is needed with fleet.role: {role}; `supervisor fleet {command}` writes it"
    name = section.get("supervisor", {}).get("id") or host_id()
    if isinstance(name, str) and not FLEET_NAME.fullmatch(name):
        yield ("supervisor", "id"), f"must be {FLEET_NAME_WORDS}, with fleet.role: {role}"
    url = str(section.get("database", {}).get("url") or "")
    if role == HUB and url.startswith("mysql"):
        yield ("database", "url"), "must be PostgreSQL or SQLite with fleet.role: hub; it's the hub's ledger"
    if role == HUB and url and not url.startswith(SQLITE) and section.get("workers"):
        yield ("workers",), "must be empty on a hub with a database server (database.url); run a host on this machine"
    if role == HOST and str(section.get("slack", {}).get("enabled", True)).casefold() != "false":
        yield ("slack", "enabled"), "must be false with fleet.role: host; the hub runs the bot"


def _describe_unknown(name: str, known: Iterable[str], noun: str) -> str:
    choices = [choice for choice in known if choice.isprintable()]
    suggestion = nearest(name, choices) if quotable(name) else None
    if suggestion:
        return f"names a {noun} that isn't configured; did you mean {suggestion}?"
    listed = f"; configured: {', '.join(choices[:8])}" if choices else ""
    added = f"; add it: `{noun}s: {{{name}: {{}}}}`" if noun == "team" and quotable(name) else ""
    return f"names a {noun} that isn't configured{listed}{added}"
