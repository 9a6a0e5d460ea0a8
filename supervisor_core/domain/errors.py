"""One base for every error, which says whether trying again can help and what a person should do."""

from __future__ import annotations


class SupervisorError(Exception):
    """Something went wrong."""

    retryable = False
    """True where the same call may go through later without anybody changing anything."""

    def __init__(self, message: str | None = None, *, remedy: str = "") -> None:
        self.message = message or (type(self).__doc__ or "").strip()
        self.remedy = remedy
        super().__init__(self.message)

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
