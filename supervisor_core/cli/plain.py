"""`supervisor status --plain`: a value a line, under a name that stays; for grep, cut and shells.

On the path of `supervisor status`: nothing slow is imported here.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ONE_OF = {"services": "service", "workers": "worker", "members": "member"}
"""What each entry of a list is called, before its own name."""

NAMES = ("id", "name", "agent_id")
"""Which of an entry's values is its name."""

EMPTY = "none"


def plain_lines(document: dict[str, Any], prefix: str = "") -> list[str]:
    """`worker.OrionMX.health=healthy`; every value in one line, `none` where there is none."""
    lines = []
    for key, value in document.items():
        if isinstance(value, dict):
            lines += plain_lines(value, f"{prefix}{key}.")
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            for entry in value:
                named = next(name for name in NAMES if name in entry)
                rest = {name: each for name, each in entry.items() if name != named}
                lines += plain_lines(rest, f"{prefix}{ONE_OF.get(key, key)}.{_name(entry[named])}.")
        elif not (key in ONE_OF and value == []):
            lines.append(f"{prefix}{key}={_value(value)}")
    return lines


def _value(value: Any) -> str:  # noqa: ANN401 (JSON of any shape)
    if value is None or value in ("", []):
        return EMPTY
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(map(_value, value)) if isinstance(value, list) else _escaped(str(value))


def _name(value: object) -> str:
    """What stands before the first `=` of a line is the name, whatever somebody called an agent."""
    return _escaped(str(value)).replace("=", "\\x3d")


def _escaped(text: str) -> str:
    r"""As in a string of Python's: `\n`, `\t`, `\x1b`, and `\\` for a backslash."""
    if text.isprintable() and "\\" not in text:
        return text
    return "".join(
        each if each.isprintable() and each != "\\" else each.encode("unicode_escape").decode() for each in text
    )
