"""The base of all errors, with a remedy that each door shows in its own way. Pure."""

from __future__ import annotations

_SAFE_IN_SHELL = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 _-.,:/@+=%")


class Verbatim(str):
    """Text to type or repeat exactly: `kill -CONT 4711`."""

    __slots__ = ()


class Identifier(Verbatim):
    """An id: code in Slack, plain in a terminal."""


class CommandText(Verbatim):
    """A command in the grammar's words: `schedule list`. Each source adds its own prefix, such as `/supervisor`."""

    __slots__ = ()


MarkedText = tuple[str, ...]
"""A sentence or two; `Verbatim` parts are shown as code."""


def in_shell(text: MarkedText) -> str:
    """Render for a terminal, where commands start with `supervisor`."""
    return "".join(f"`{as_in_shell(part)}`" if isinstance(part, Verbatim) else part for part in text)


def as_in_shell(part: Verbatim) -> str:
    """A word as it's typed in a terminal."""
    if not isinstance(part, CommandText):
        return str(part)
    if _SAFE_IN_SHELL.issuperset(part) and not part.startswith("audit "):  # `supervisor audit` takes options instead
        return f"supervisor {part}"
    import shlex  # late: every error imports this module, and most are never shown

    return f"supervisor send {shlex.quote(part)}"


class SupervisorError(Exception):
    """Something went wrong."""

    retryable = False
    """True where the same call may succeed later without any change."""

    def __init__(self, message: str | None = None, *, remedy: str | MarkedText = "") -> None:
        self.message = message or (type(self).__doc__ or "").strip()
        self.remedy = remedy if isinstance(remedy, str) else in_shell(remedy)
        self._todo: MarkedText = () if isinstance(remedy, str) else remedy
        super().__init__(self.message)

    @property
    def todo(self) -> MarkedText:
        """The remedy for a reader outside a shell: commands in it are `CommandText`."""
        return self._todo or (self.remedy,)

    def __str__(self) -> str:
        return f"{self.message} {self.remedy}".rstrip()


class UsageError(SupervisorError):
    """The command wasn't understood."""


class ConfigError(SupervisorError):
    """The configuration can't be used."""


class RefusedError(SupervisorError):
    """Refused: this isn't safe."""


class TemporaryError(SupervisorError):
    retryable = True


class LedgerUnavailable(TemporaryError):
    """The ledger can't be written right now."""

    short = "the ledger can't be used"
    """The message in a few words, for a table."""


def describe(error: BaseException) -> str:
    """Describe an exception in one line: a `SupervisorError` by its message, any other with its type."""
    if isinstance(error, SupervisorError):
        return str(error)
    kind, text = type(error).__name__, " ".join(str(error).split())
    return f"{kind}: {text}" if text else kind
