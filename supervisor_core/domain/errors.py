"""One base for every error, which says whether trying again can help and what a person should do."""

from __future__ import annotations

from supervisor_core.domain.typed import Words, in_shell


class SupervisorError(Exception):
    """Something went wrong."""

    retryable = False
    """True where the same call may go through later without anybody changing anything."""

    def __init__(self, message: str | None = None, *, remedy: str | Words = "") -> None:
        self.message = message or (type(self).__doc__ or "").strip()
        self.remedy = remedy if isinstance(remedy, str) else in_shell(remedy)
        self._todo: Words = () if isinstance(remedy, str) else remedy
        super().__init__(self.message)

    @property
    def todo(self) -> Words:
        """What a person should do, for a reader who is not in a shell: commands in it are `Given`."""
        return self._todo or (self.remedy,)

    def __str__(self) -> str:
        return f"{self.message} {self.remedy}".rstrip()


class UsageError(SupervisorError):
    """The command was not understood."""


class ConfigError(SupervisorError):
    """The configuration can't be used."""


class RefusedError(SupervisorError):
    """Refused: this would not be safe."""


class TemporaryError(SupervisorError):
    """It did not work this time."""

    retryable = True


class LedgerUnavailable(TemporaryError):
    """The ledger can't be written at the moment."""

    short = "the ledger can't be used"
    """The same in a few words, for a table."""


def describe(error: BaseException) -> str:
    """An exception in one line: our own errors in their words, all others with their type."""
    if isinstance(error, SupervisorError):
        return str(error)
    kind, words = type(error).__name__, " ".join(str(error).split())
    return f"{kind}: {words}" if words else kind
