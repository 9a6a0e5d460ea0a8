"""The configuration as a service: the file is watched, and each good change of it becomes a version.

Whoever cares subscribes to versions and never reads the file. What is wrong stays outside: the last good one holds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from supervisor_core.config import SupervisorConfig, load_supervisor_config
from supervisor_core.config.diff import ConfigDiff
from supervisor_core.runtime.blocking import Blocking
from supervisor_core.runtime.service_names import CONFIGURATION


@dataclass(frozen=True, slots=True)
class ConfigVersion:
    """A configuration that is in force, and how it differs from the one before."""

    number: int
    config: SupervisorConfig
    """With the workers and teams of the file; all other sections as the daemon was started with them."""
    diff: ConfigDiff
    at: datetime


class ConfigService:
    """Watches the configuration and the `.env` beside it, by the kernel's word and by looking again and again."""

    name = CONFIGURATION

    def __init__(
        self,
        config: SupervisorConfig,
        blocking: Blocking,
        load: Callable[[Path], SupervisorConfig] = load_supervisor_config,
    ) -> None:
        self.current: ConfigVersion
        """What is in force; replaced in one assignment, so any thread may read it. The first has the number 1."""
        self.needs_restart: tuple[str, ...] = ()
        """Settings that differ in the file from what the daemon was started with, and wait for its restart."""
        raise NotImplementedError

    def subscribe(self, callback: Callable[[ConfigVersion], None]) -> None:
        """Have this called on the event loop with each version to come: only when workers or teams have changed."""
        raise NotImplementedError

    def wake(self) -> None:
        """Look at the file now. On the event loop."""
        raise NotImplementedError

    def problem(self) -> str:
        """What is wrong with the file, in a line, and which version is in force; empty while all is well."""
        raise NotImplementedError

    async def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The control door's `config`: what this daemon would do with the file at `path`, read by the daemon itself.

        `{"do": "config", "path": "/abs/config.yaml"}` is answered with `{"ok", "version", "since", "path", "problem",
        "needs_restart", "difference": ConfigDiff.as_json()}`; where the daemon can't use that file, `difference` is
        null and `refused` says why. Without `path` it is about the daemon's own file. Names only, never a value.
        """
        raise NotImplementedError

    async def initialise(self) -> None:
        """Have the kernel tell of changes, where it can."""

    async def run(self, stopping: asyncio.Event) -> None:
        """Look at each hint and now and then; until asked to stop."""

    async def shut_down(self) -> None:
        """Stop watching."""
