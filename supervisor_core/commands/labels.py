"""Labels, notes, the audit label, and the roles of workers that a command or configuration affected. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from supervisor_core.common.errors import UsageError

MAX_LABEL = 100
MAX_NOTE = 500  # characters
MAX_NAME = 300  # characters of a name that are read
MAX_ISSUER = 50
MAX_AUDIT_LABEL = MAX_ISSUER + 3 + MAX_LABEL
SEPARATOR = " - "

_LABEL = re.compile(r"[A-Za-z0-9 _-]{1,100}")
_NOT_IN_AN_ISSUER = re.compile(r"[^A-Za-z0-9 _.'()-]")
_NOT_IN_NOTES = ("Cc", "Cs", "Zl", "Zp", "Zs")
_BIDI = frozenset(map(chr, (*range(0x202A, 0x202F), *range(0x2066, 0x206A))))
"""Characters that turn the text after them around, which would let a note change how an approval reads."""

_ID_PREFIX = re.compile(r".*[:/]")  # slack:T0TEAM/U0OPER is U0OPER to a reader


def validate_label(label: object) -> tuple[bool, str]:
    """Check a label; return whether it's valid and, if not, the reason for the person who gave it.

    Spaces at its ends don't count. An empty label is valid and means no label.
    """
    if label is None:
        return True, ""
    if not isinstance(label, str):
        return False, f"A label must be text, not {type(label).__name__}."
    text = label.strip(" ")
    if len(text) > MAX_LABEL:
        return False, f"A label can have up to {MAX_LABEL} characters; this one has {len(text)}."
    if text and not _LABEL.fullmatch(text):
        odd = next(character for character in text if not _LABEL.fullmatch(character))
        return False, f"{odd!r} isn't allowed in a label. Use letters A-Z, digits, spaces, hyphens and underscores."
    return True, ""


def clean_label(label: str | None) -> str | None:
    """The label as it's stored: trimmed, None if it's empty; `UsageError` for one that isn't valid."""
    ok, problem = validate_label(label)
    if not ok:
        raise UsageError(problem)
    return (label or "").strip(" ") or None


def clean_note(text: str) -> str:
    """The note as it's stored: any text, as one line without control characters; `UsageError` where it's too long."""
    import unicodedata

    kept = (" " if unicodedata.category(each) in _NOT_IN_NOTES or each in _BIDI else each for each in text)
    note = "".join(kept).strip()
    if len(note) > MAX_NOTE:
        raise UsageError(f"A note can have up to {MAX_NOTE} characters; this one has {len(note)}.")
    return note


def audit_label(name: str, user_id: str, label: str | None) -> str:
    """The requester, then the label as it was given: `operator - hotfix`. At most `MAX_AUDIT_LABEL` characters."""
    issuer = ascii_name(name) or ascii_name(_ID_PREFIX.sub("", user_id)) or "unknown"
    return f"{issuer}{SEPARATOR}{label}" if label else issuer


def ascii_name(name: str) -> str:
    """A name in ASCII letters: `Zoë Łuczak` is `Zoe Luczak`, and other scripts are transliterated.

    Symbols and whatever reads as the separator or as markup become a space. Empty if nothing is left.
    """
    if not name.isascii():
        import unicodedata

        from anyascii import anyascii  # seldom needed

        composed = unicodedata.normalize("NFKC", name[:MAX_NAME])
        name = "".join(
            anyascii(character) if unicodedata.category(character)[0] in "LMNP" else " " for character in composed
        )
    text = " ".join(_NOT_IN_AN_ISSUER.sub(" ", name).split())
    while SEPARATOR in text:
        text = text.replace(SEPARATOR, " ")
    text = text[:MAX_ISSUER].strip(" -")
    return text if any(character.isalnum() for character in text) else ""


class Role(StrEnum):
    """The effect on a worker of a command for another one, or of a configuration."""

    RESTARTED = "restarted"
    STOPPED = "stopped"
    STARTED = "started"
    CODE = "code"
    FAILED = "failed"

    @property
    def words(self) -> str:
        """As in `fetcher: stopped and restarted with mailer`."""
        return _WORDS[self]


_WORDS: Mapping[Role, str] = {
    Role.RESTARTED: "stopped and restarted",
    Role.STOPPED: "stopped and not restarted",
    Role.STARTED: "started",
    Role.CODE: "code changed, not running",
    Role.FAILED: "not running",
}

Affected = Mapping[str, str]
"""The role of each worker, by its id."""


def siblings_in(worker_id: str, result: Mapping[str, Any]) -> dict[str, str]:
    """The other workers of a changed checkout, from what the handler says. A job that took over the outcome of another
    one of its command did nothing itself."""
    turns = result.get("workers")
    if not isinstance(turns, Mapping) or "together_with" in result:
        return {}
    return {
        str(each): str(_role(turn)) for each, turn in turns.items() if each != worker_id and isinstance(turn, Mapping)
    }


def affected_in_words(affected: Affected, about: str, only: Iterable[str] = ()) -> str:
    """`fetcher: stopped and restarted with mailer`; of `only` these workers where any of them are affected."""
    wanted = set(only) & affected.keys()
    shown = {worker: role for worker, role in affected.items() if not wanted or worker in wanted}
    grouped: dict[str, list[str]] = {}
    for worker, role in sorted(shown.items()):
        grouped.setdefault(role, []).append(worker)
    return "; ".join(f"{', '.join(workers)}: {_role_words(role)} with {about}" for role, workers in grouped.items())


def _role_words(role: str) -> str:
    return Role(role).words if role in set(Role) else role


def _role(turn: Mapping[str, Any]) -> Role:
    ran, runs = bool(turn.get("was_running")), bool(turn.get("new_pid"))
    if runs:
        return Role.RESTARTED if ran else Role.STARTED
    return Role.STOPPED if ran else Role.CODE
