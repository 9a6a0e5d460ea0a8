"""Errors of a typed command, with the nearest valid command. Pure."""

from __future__ import annotations

from difflib import get_close_matches

from supervisor_core.common.errors import MarkedText, UsageError, in_shell

NAMED = 10
"""Workers that a message lists; it counts the others."""

MOST_COMPARED = 500

_VERBS = {"rollback": "Roll back", "undo": "Undo the last change of", "update-deps": "Update"}
"""The verb of a command's question for its worker, where that isn't its name."""


def verb_of(name: str) -> str:
    """The command as the verb of a question about its worker."""
    return _VERBS.get(name, name.capitalize())


class GrammarError(UsageError):
    suggestion: str | None = None
    """The nearest valid command, in full. Only `parse` sets it."""

    def __init__(self, message: str, *, repair: str | None = None, instead: str | None = None) -> None:
        super().__init__(message)
        self.repair = repair
        """The whole text with this mistake corrected; it may have others."""
        self.instead = instead
        """The replacement for the wrong word, where the raiser sees only that word."""

    def inside(self, before: str) -> None:
        """Place this error in a longer command, after these words."""
        if self.repair is not None:
            self.repair = f"{before} {self.repair}"

    def suggest(self, remedy: MarkedText) -> None:
        """Say what to type instead."""
        self._todo, self.remedy = remedy, in_shell(remedy)


class NeedsTarget(GrammarError):
    """The command needs a worker, and there are several. `choices` are their ids, in order; `unknown` is the word in
    the place of one, which may be the label."""

    def __init__(
        self, name: str, choices: tuple[str, ...], *, before: str, after: str, unknown: str | None = None
    ) -> None:
        more = len(choices) - NAMED
        known = ", ".join(choices[:NAMED]) + (f" and {more} more" if more > 0 else "")
        message = f"{verb_of(name)} which worker? Workers: {known}."
        if unknown is not None:
            likely = get_close_matches(unknown, choices[:MOST_COMPARED], n=1)
            hint = f"Did you mean {likely[0]}?" if likely else message
            message = f"There's no worker “{unknown}”. {hint}"
        super().__init__(message)
        self.name = name
        """Of the command."""
        self.choices = choices
        self.before = before
        self.after = after

    def complete(self, choice: str) -> str:
        """The command as it was typed, with the target chosen."""
        return f"{self.before} {choice} {self.after}".rstrip(" ")

    def inside(self, before: str) -> None:
        """Place this error in a longer command, after these words."""
        super().inside(before)
        self.before = f"{before} {self.before}"


class WrongNumber(GrammarError):
    """A number is out of its bounds, or isn't in digits."""


class LabelError(GrammarError):
    """The label isn't valid. `suggestion` is the same command with the cleaned label."""

    def __init__(self, message: str, label: str | None, *, repair: str | None = None) -> None:
        super().__init__(message, repair=repair)
        self.label = label
        """The cleaned label; None where nothing of it is left."""


class NearMiss(GrammarError):
    """A word almost names a worker. `suggestion` takes it for the worker, but nothing runs on a guess."""

    otherwise: str | None = None
    """The command with the word as something else, such as the label; None where it can't be that."""

    def __init__(
        self, message: str, names: tuple[str, ...], *, otherwise: str | None = None, instead: str | None = None
    ) -> None:
        super().__init__(message, instead=instead or names[0])
        self.names = names
        self.other_repair = otherwise

    def inside(self, before: str) -> None:
        """Place this error in a longer command, after these words."""
        super().inside(before)
        if self.other_repair is not None:
            self.other_repair = f"{before} {self.other_repair}"
