"""What a pass did, and what went wrong in it: collected as it goes, told at its end."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from supervisor_core.domain.errors import SupervisorError, describe

log = logging.getLogger(__name__)


@dataclass
class Findings:
    """`actions` are names of handlers, and `started`; `problems` are sentences. Without problems all went well."""

    actions: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def well(self) -> bool:
        """Whether nothing went wrong."""
        return not self.problems

    def failed(self, why: str, level: int = logging.ERROR) -> None:
        """Note it, and say it in the log; once, however many meet it."""
        if why not in self.problems:
            log.log(level, "%s", why)
        self.noted(why)

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """The edge of one step: what it raises is noted, and the pass goes on to say so."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 (a pass that ended here would leave an old heartbeat that says "well")
            self.failed(in_words(error))

    def noted(self, why: str) -> None:
        """Note what the log says already."""
        if why not in self.problems:
            self.problems.append(why)


def in_words(error: Exception) -> str:
    """What is said of an error; of one that nobody expected, the log has the details."""
    if isinstance(error, SupervisorError | OSError):
        return str(error)
    log.error("a step of the pass raised", exc_info=error)
    return f"Unexpected {describe(error)}. The log has the details."
