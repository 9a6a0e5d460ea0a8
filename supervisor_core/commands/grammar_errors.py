"""Errors of a typed command, which know the nearest right one. Pure."""

from __future__ import annotations

from supervisor_core.common.errors import UsageError

NAMED = 10
"""So many workers are named in a message; more of them nobody reads."""


class GrammarError(UsageError):
    """The command was not understood."""

    suggestion: str | None = None
    """The nearest right command, in full; it parses. Only `parse` sets it."""

    def __init__(self, message: str, *, repair: str | None = None, instead: str | None = None) -> None:
        super().__init__(message)
        self.repair = repair
        """The whole text with this one mistake mended; others may be left in it."""
        self.instead = instead
        """What to put in place of the one word that is wrong, where the raiser sees only that word."""

    def inside(self, before: str) -> None:
        """This mistake was made in a command that is part of a longer one."""
        if self.repair is not None:
            self.repair = f"{before} {self.repair}"


class NeedsTarget(GrammarError):
    """The command needs a worker, and there are several. `choices` are their ids, in order."""

    def __init__(self, name: str, choices: tuple[str, ...], *, before: str, after: str) -> None:
        named = ", ".join(choices[:NAMED]) + (" and more" if len(choices) > NAMED else "")
        super().__init__(f"Which worker shall {name} be for? There are {named}, and none of them is the default.")
        self.name = name
        """Of the command."""
        self.choices = choices
        self.before = before
        self.after = after

    def complete(self, choice: str) -> str:
        """The command as it was typed, with the target chosen."""
        return f"{self.before} {choice} {self.after}".rstrip(" ")

    def inside(self, before: str) -> None:
        """This command is part of a longer one."""
        super().inside(before)
        self.before = f"{before} {self.before}"


class NearMiss(GrammarError):
    """A word nearly names a worker: asked, never guessed. `suggestion` takes it for the worker."""

    otherwise: str | None = None
    """The command that takes the word for what else it may be, such as the label; None where it can't be."""

    def __init__(self, message: str, names: tuple[str, ...], *, otherwise: str | None = None) -> None:
        super().__init__(message, instead=names[0])
        self.names = names
        self.other_repair = otherwise

    def inside(self, before: str) -> None:
        """This word is part of a longer command."""
        super().inside(before)
        if self.other_repair is not None:
            self.other_repair = f"{before} {self.other_repair}"
