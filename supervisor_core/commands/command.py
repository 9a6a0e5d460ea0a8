"""The command, as a frozen value with its issuer, and the outcome of its execution. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from supervisor_core.commands.labels import audit_label
from supervisor_core.common.text import printable

NOTE_KEY = "note"
"""The key of the note among a command's parameters."""

REPORTED = "host"
"""The source of a command that a host of the fleet reported and that the hub didn't send, and of its requester. It's
that host's history: never a submission, an approval or an order."""

NOTHING: Mapping[str, Any] = MappingProxyType({})

SENTENCES = ("message", "error", "push_error")
"""Of the details, what people read: like the error, it may repeat a file name or what a program printed."""


@dataclass(frozen=True, slots=True)
class Issuer:
    """The requester. `id` is the actor in the audit trail (`slack:T…/U…`, `cli:name`, `file:owner` …)."""

    id: str
    name: str
    owner: str = ""
    """The actor whose rights count, where it is another one: a schedule's is whoever added it."""

    @property
    def person(self) -> Issuer:
        """The one whose rights count."""
        return Issuer(self.owner, self.name) if self.owner else self

    def is_same_as(self, other_id: str, people: Mapping[str, str] = NOTHING) -> bool:
        return person_of(self.id, people) == person_of(other_id, people)


def person_of(issuer_id: str, people: Mapping[str, str] = NOTHING) -> str:
    """The id of a person. `people`: the Slack user ids of users of this host, `slack.access.people`.

    Slack's user ids are unique, but the workspace in an issuer id can be that of the command, of the click or of the
    person. The owner of a flag is only a hint, but nobody's vote counts for what may be their own request.
    """
    source, _, name = issuer_id.partition(":")
    if source == "slack":
        return f"slack:{name.rpartition('/')[2]}"
    user = people.get(name) if source in ("cli", "file") else None
    return f"slack:{user}" if user else issuer_id


@dataclass(frozen=True, slots=True)
class Command:
    """One request from any source. `target` is as typed, in the configured case; `workers` are those it means."""

    name: str
    target: str = ""
    workers: tuple[str, ...] = ()
    params: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    label: str | None = None
    issuer: Issuer | None = None
    task_id: str = ""
    batches: tuple[tuple[str, ...], ...] = ()
    """The workers of a rolling change in its batches; empty for any other command."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "params", MappingProxyType(dict(self.params)))

    @classmethod
    def for_worker(
        cls, name: str, worker_id: str, params: Mapping[str, Any] = NOTHING, label: str | None = None
    ) -> Command:
        return cls(name, worker_id, (worker_id,), params, label)

    def issued(self, by: Issuer, task_id: str) -> Command:
        return replace(self, issuer=by, task_id=task_id)

    @property
    def note(self) -> str:
        """The free text that was typed after ` -- `; empty if there is none."""
        return str(self.params.get(NOTE_KEY) or "")

    def without_words(self) -> Command:
        """The same command without its label and its note: what it does, not why."""
        params = {name: value for name, value in self.params.items() if name != NOTE_KEY}
        return replace(self, label=None, params=params)

    @property
    def audit_label(self) -> str:
        """The requester and the label, as the audit trail shows them: `operator - hotfix`."""
        if self.issuer is None:
            raise ValueError("a command without an issuer has no audit label")
        return audit_label(self.issuer.name, self.issuer.id, self.label)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a command on one worker. Every handler returns one, whatever happened."""

    success: bool
    error: str | None = None
    details: Mapping[str, Any] = field(default_factory=lambda: NOTHING)

    def __post_init__(self) -> None:
        details = dict(self.details)
        for name in SENTENCES:
            if isinstance(details.get(name), str):
                details[name] = printable(details[name])
        object.__setattr__(self, "details", MappingProxyType(details))
        if self.error is not None:
            object.__setattr__(self, "error", printable(self.error))

    @classmethod
    def done(cls, **details: Any) -> Outcome:  # noqa: ANN401 (details are JSON of any shape)
        return cls(success=True, details=details)

    @classmethod
    def failed(cls, error: str, **details: Any) -> Outcome:  # noqa: ANN401 (details are JSON of any shape)
        """A failure; `error` says why and what to do."""
        return cls(success=False, error=error, details=details)
