"""Errors of a typed command. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from supervisor_core.common.errors import CommandText, UsageError, in_shell

NAMED = 10
"""Workers that a message lists; it counts the others."""

_VERBS = {"rollback": "Roll back", "undo": "Undo the last change of", "update-deps": "Update"}
"""The verb of a command's question for its worker, where that isn't its name."""


def verb_of(name: str) -> str:
    """The command as the verb of a question about its worker."""
    return _VERBS.get(name, name.capitalize())


class GrammarError(UsageError):
    def __init__(self, message: str, *, instead: str | None = None) -> None:
        super().__init__(message)
        self.instead = instead
        """The closest valid word, for the one that wasn't understood."""
        self.suggestion: str | None = None
        """The text as it was typed, with that word in it. It may have other mistakes."""

    def suggest(self, text: str) -> None:
        """Ask whether this text was meant. It's never run without an answer."""
        self.suggestion = text
        self._todo = "Did you mean: ", CommandText(text)
        self.remedy = in_shell(self._todo)

    def inside(self, before: str) -> None:
        """Place this error in a longer command, after these words."""
        if self.suggestion is not None:
            self.suggest(f"{before} {self.suggestion}")


class NeedsTarget(GrammarError):
    """The command needs a worker, and there are several. `choices` are their ids, in order; `unknown` is the word in
    the place of one, which may be the label."""

    def __init__(
        self, name: str, choices: Sequence[str], *, before: str, after: str, unknown: str | None = None
    ) -> None:
        more = len(choices) - NAMED
        known = ", ".join(choices[:NAMED]) + (f" and {more} more" if more > 0 else "")
        message = f"{verb_of(name)} which worker? Workers: {known}."
        if unknown is not None:
            message = f"There's no worker “{unknown}”. {message}"
        super().__init__(message)
        self.name = name
        """Of the command."""
        self.choices = tuple(choices)
        self.before = before
        self.after = after

    def complete(self, choice: str) -> str:
        """The command as it was typed, with the target chosen."""
        return f"{self.before} {choice} {self.after}".rstrip(" ")

    def inside(self, before: str) -> None:
        """Place this error in a longer command, after these words."""
        self.before = f"{before} {self.before}"


class NearMiss(GrammarError):
    """A word almost names a worker. Nothing runs on a guess."""
