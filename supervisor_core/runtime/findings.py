"""What a pass did, and what went wrong in it: collected as it goes, told at its end."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

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

    def noted(self, why: str) -> None:
        """Note what the log says already."""
        if why not in self.problems:
            self.problems.append(why)
