"""The card of a configuration that was applied or refused. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bot.views.text import escape, fit
from bot.views.told import Content, context, section
from supervisor_core.domain.affected import Role
from supervisor_core.domain.code import count
from supervisor_core.domain.config_changes import End

SHOWN, NAMES = 8, 8
"""Lines of changes, and workers by name; the others are counted."""

LINE, ERROR, PATH = 150, 1500, 200  # characters


def config_card(said: Mapping[str, Any]) -> Content:
    """One message for each configuration."""
    return _refused(said) if "error" in said else _applied(said)


def _refused(said: Mapping[str, Any]) -> Content:
    headline = f"*Configuration refused* on {_data(said['host'])} · version {said['version']} stays in force"
    error = fit(escape(str(said["error"]).replace("```", "'''")), ERROR)
    body = f"```{error}```\nCorrect the file. It's read again as soon as it changes."
    return _card(f":warning: {headline}", body, said)


def _applied(said: Mapping[str, Any]) -> Content:
    end, affected = End(said["end"]), {str(name): str(role) for name, role in said["affected"].items()}
    failed = _with(affected, Role.FAILED)
    moved = [
        f"{_listed(names)} {verb}"
        for role, verb in ((Role.RESTARTED, "restarted"), (Role.STARTED, "started"), (Role.STOPPED, "stopped"))
        if (names := _with(affected, role))
    ]
    down = f"{_listed(failed)} {'does' if len(failed) == 1 else 'do'}n't run with it"
    facts = "; ".join(moved) or "no worker restarted"
    headline = {
        End.APPLIED: f":white_check_mark: *Configuration applied* · {facts}",
        End.FAILED: f":red_circle: *Configuration applied* · {down}",
        End.HALTED: f":red_circle: *Configuration halted* · {down}",
        End.SUPERSEDED: f":fast_forward: *Configuration superseded* by a newer one · {facts}",
        End.INTERRUPTED: f":warning: *Configuration interrupted* by the end of the supervisor · {facts}",
    }[end]
    lines = [f"• {_data(each)}" for each in said["changes"][:SHOWN]]
    lines += [f"• and {len(said['changes']) - SHOWN} more"] if len(said["changes"]) > SHOWN else []
    held = sorted(set(said["moves"]) - affected.keys())
    if end is End.HALTED and held:
        lines.append(f"{_listed(held)} {'keeps' if len(held) == 1 else 'keep'} running with the older settings.")
    if failed:
        lines.append("Correct the configuration. It's applied as soon as the file changes.")
    return _card(headline, "\n".join(lines), said)


def _card(headline: str, body: str, said: Mapping[str, Any]) -> Content:
    facts = f"{_data(said['owner'])} · {fit(escape(str(said['path'])), PATH)} · version {said['version']}"
    blocks = [section(headline), *([section(body)] if body else []), context(facts)]
    return {"text": headline, "blocks": blocks}


def _with(affected: Mapping[str, str], role: Role) -> list[str]:
    return sorted(name for name, its in affected.items() if its == role)


def _listed(names: Sequence[str]) -> str:
    if len(names) > NAMES:
        return count(len(names), "worker")
    *others, last = map(_data, names) if names else [""]
    return f"{', '.join(others)} and {last}" if others else last


def _data(text: object) -> str:
    return fit(escape(str(text)), LINE)
