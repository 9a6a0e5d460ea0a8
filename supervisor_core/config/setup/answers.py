"""The configuration that `supervisor init` makes of a person's answers, and the checks of each answer."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from supervisor_core.common.section_checks import Invalid
from supervisor_core.config.names import ChannelId, HostId, PersonId, TeamName, worker_id_fault
from supervisor_core.config.raw import DEFAULT_STATE_DIR
from supervisor_core.config.setup.files import document_text
from supervisor_core.config.setup.imports.conversion import is_in_checkout, quoted
from supervisor_core.config.slack_settings import APP_TOKEN, BOT_TOKEN
from supervisor_core.config.worker_settings import PLACEHOLDERS

HEADER = """\
# The supervisor of this host. Check changes with `supervisor config check`.
# Every setting is described in docs/reference/configuration.md.
"""
COMMENTS = {
    "workers": "The programs that the supervisor runs.",
    "slack": "The tokens are in .env. Ids don't change when names do: U… for people, C… for channels.\n"
    "Operators run commands, approvers agree to updates and rollbacks, viewers only look.",
    "nas": "The shared drive, which must be mounted.",
}
ENV_COMMENT = "# Variables of config.yaml, as NAME=value. Keep this file secret."
TOKENS = {BOT_TOKEN: "xoxb-", APP_TOKEN: "xapp-"}
"""Slack's tokens, by their variables, and how each begins."""

OF_A_SHELL = frozenset({"&&", "||", "|", "&", ";", ">", ">>", "<", "2>", "2>&1"})
LONGEST_AGE = 86_400.0
_SPECIAL = re.compile(rf"(\$\{{[A-Za-z_][A-Za-z0-9_]*(?::[^}}]*)?\}}|\{{(?:{'|'.join(PLACEHOLDERS)})\}})|[$\{{\}}]")
"""A variable or a placeholder, which stays; else a sign that is written twice to mean itself."""


@dataclass(frozen=True, slots=True)
class NewWorker:
    worker_id: str
    command: str
    """As it's typed in a shell, but no shell runs it."""
    folder: str = ""
    heartbeat: float = 0.0
    """The age at which its heartbeat is stale; 0 if it writes none."""
    team: str = ""

    def section(self, here: Path) -> dict[str, Any]:
        """Its section of the configuration in the folder `here`."""
        section: dict[str, Any] = {"command": command_words(self.command)}
        if self.folder not in ("", "."):
            section["cwd"] = quoted(self.folder)
            if is_in_checkout(here / Path(self.folder).expanduser()):
                section["code"] = {"path": section["cwd"]}
        section["heartbeat_max_age_seconds"] = int(self.heartbeat) if self.heartbeat.is_integer() else self.heartbeat
        return {**section, **({"team": self.team} if self.team else {})}


@dataclass(frozen=True, slots=True)
class NewHost:
    host_id: str
    state_dir: str = DEFAULT_STATE_DIR
    workers: tuple[NewWorker, ...] = ()
    drive: str = ""
    slack: bool = False
    channel: str = ""
    operators: tuple[str, ...] = ()

    def text(self, here: Path) -> str:
        """The configuration as a file in the folder `here`."""
        document: dict[str, Any] = {"supervisor": {"id": self.host_id, "state_dir": quoted(self.state_dir)}}
        if self.drive:
            document["nas"] = {"root": quoted(self.drive)}
        document["workers"] = {each.worker_id: each.section(here) for each in self.workers}
        if any(each.team for each in self.workers):
            document["teams"] = {each.team: {} for each in self.workers if each.team}
        document["slack"] = self._slack() if self.slack else {"enabled": False}
        comments = {**COMMENTS, **({} if self.slack else {"slack": ""})}
        return document_text(document, HEADER, comments)

    def _slack(self) -> dict[str, Any]:
        access = {"viewers": ["*"], "operators": list(self.operators), "approvers": []}
        return {"alert_channel": self.channel, "access": access}


def command_words(text: str) -> list[str]:
    """The words of a command line, for `workers.ID.command`; `Invalid` for what only a shell understands."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise Invalid(f"isn't a command line: {str(error).lower()}") from None
    if not words:
        raise Invalid("is empty; example: python3 fetch.py --all")
    if found := [each for each in words if each in OF_A_SHELL]:
        raise Invalid(f"has {found[0]}, but no shell runs it; write sh -c '…' around it, or put it into a script")
    return [_SPECIAL.sub(lambda found: found[1] or found[0] * 2, each) for each in words]


def _line(text: str) -> None:
    if not text.isprintable():
        raise Invalid("must be one line of text")


def _worker_id(text: str) -> None:
    if fault := worker_id_fault(text):
        raise Invalid(fault)


def _command(text: str) -> None:
    command_words(text)


def _age(text: str) -> None:
    if not re.fullmatch(r"[0-9]{1,5}(?:\.[0-9]{1,3})?", text) or float(text) > LONGEST_AGE:
        raise Invalid(f"must be a number of seconds, up to {LONGEST_AGE:.0f}")


def _people(text: str) -> None:
    for each in split_list(text):
        _valid(PersonId)(each)


def _valid(kind: object) -> Callable[[str], None]:
    """The check of a setting's type."""
    check = get_args(kind)[1].func

    def checked(text: str) -> None:
        check(text)

    return checked


def _token(name: str) -> Callable[[str], None]:
    def check(text: str) -> None:
        if not re.fullmatch(rf"{TOKENS[name]}[A-Za-z0-9-]+", text):
            raise Invalid(f"must start with {TOKENS[name]}, followed by letters, digits and hyphens")

    return check


def check_worker_folder(here: Path, text: str) -> None:
    """Refuse a folder that isn't there: its worker couldn't start, and nobody knows yet if it's a checkout."""
    _line(text)
    if not (here / Path(text).expanduser()).is_dir():
        raise Invalid("isn't a folder of this host; create it first, or correct the path")


def split_list(text: str) -> tuple[str, ...]:
    """The items of a list that is separated by commas or spaces."""
    return tuple(text.replace(",", " ").split())


CHECKS: Mapping[str, Callable[[str], None]] = {
    "name": _valid(HostId),
    "state-dir": _line,
    "worker": _worker_id,
    "command": _command,
    "cwd": _line,
    "heartbeat": _age,
    "team": _valid(TeamName),
    "drive": _line,
    "channel": _valid(ChannelId),
    "operators": _people,
    BOT_TOKEN: _token(BOT_TOKEN),
    APP_TOKEN: _token(APP_TOKEN),
}
"""The check of each answer, by its option; it raises `Invalid`, whose text continues a sentence."""
