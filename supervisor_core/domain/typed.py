"""What a person may type next, as data: how it is typed depends on the door at which they stand. Pure."""

from __future__ import annotations

OF_THE_SHELL = frozenset({"alerts", "approvals", "audit", "logs", "status"})
"""Commands that are subcommands of the shell as well, and need no `send`."""


class Typed(str):
    """Something to be typed, or repeated letter by letter: `kill -CONT 4711`."""

    __slots__ = ()


class Given(Typed):
    """A command in the words of the grammar: `schedule list`. What is typed before it each door knows itself."""

    __slots__ = ()


Words = tuple[str, ...]
"""A sentence or two; the parts of it that are `Typed` are shown so that they can be told from the rest."""


def in_shell(words: Words) -> str:
    """For a terminal, where commands go through `supervisor`."""
    return "".join(f"`{as_in_shell(word)}`" if isinstance(word, Typed) else word for word in words)


def as_in_shell(word: Typed) -> str:
    """One of them as it is typed there."""
    if not isinstance(word, Given):
        return str(word)
    import shlex  # late: every error imports this module, and most are never shown

    return f"supervisor {word}" if word in OF_THE_SHELL else f"supervisor send {shlex.quote(word)}"
