"""The configuration as a service: its file is watched, and each good change becomes a version.

Subscribers get versions and never read the file. While the file is wrong, the last good version holds.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from supervisor_core.common.errors import ConfigError
from supervisor_core.common.log_events import LogEvent
from supervisor_core.common.service import Blocking, Service, wait_until
from supervisor_core.common.service_names import CONFIGURATION
from supervisor_core.common.times import to_text
from supervisor_core.config.diff import RESTART_WORDS, ConfigDiff, compare, in_force, list_names
from supervisor_core.config.load import SupervisorConfig, put_commands_in_force, read_config
from supervisor_core.config.raw import ENV_FILE, MAX_BYTES
from supervisor_core.host.folder_watch import FolderWatch

if TYPE_CHECKING:
    from supervisor_core.daemon.configuration.history import ConfigHistory

QUIET_SECONDS = 0.2
"""For how long the files must stay as they are before they are read."""

POLL_SECONDS, POLL_BESIDE_SECONDS = 2.0, 30.0
"""Between two looks: where the kernel can't tell of changes, and where it can, for another host's write to a drive."""

PATIENCE_SECONDS = 5.0
"""A reading that takes longer is reported. The service keeps waiting for it and starts no second one."""

CHECK_SECONDS = 5.0
"""Timeout of a requested check of the file."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ConfigVersion:
    """A configuration that is in force, and how it differs from the one before."""

    number: int
    config: SupervisorConfig
    """With the workers, teams and commands of the file; all other sections as the daemon was started with them."""
    diff: ConfigDiff
    at: datetime


class ConfigService(Service):
    """Watches the file and the `.env` beside it. Until it's started, only `apply` changes the configuration."""

    name = CONFIGURATION

    def __init__(self, config: SupervisorConfig, blocking: Blocking | None = None) -> None:
        super().__init__()
        self.current = ConfigVersion(1, config, ConfigDiff(), datetime.now(UTC))
        """The active version, numbered from 1. It is replaced in one assignment, so any thread may read it."""
        self.file_text = config.text
        """The text of the newest file that could be used."""
        self.needs_restart: tuple[str, ...] = ()
        """Settings of the file that wait for a restart of the daemon."""
        self.history: ConfigHistory | None = None
        """Records what was applied or refused; None in a library's program."""
        self._blocking = blocking or Blocking()
        self._subscribers: list[Callable[[ConfigVersion], None]] = []
        self._woken = asyncio.Event()
        self._fingerprint = ""
        """Of the newest content, good or not, that was read."""
        self._error = ""
        self._hangs = False
        self._check: asyncio.Future[SupervisorConfig | str] | None = None

    def subscribe(self, callback: Callable[[ConfigVersion], None]) -> None:
        """Have this called on the event loop with each version to come: new workers, teams or commands."""
        self._subscribers.append(callback)

    def problem(self) -> str:
        """The problem of the file in a line, with the active version; empty if there is none."""
        problem, *others = self._error.splitlines() or [""]
        if self._hangs:
            problem, others = f"the configuration's folder, {self.current.config.path.parent}, isn't responding", []
        count = f" (and {len(others)} more)" if others else ""
        return f"{problem}{count}; version {self.current.number} stays active" if problem else ""

    async def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The control socket's `config`: what this daemon would do with the file at `path`, else with its own file.

        `difference` is `ConfigDiff.as_json()`; if the daemon can't use the file, it is null, and `refused` says why.
        """
        path = Path(str(request.get("path") or self.current.config.path))
        config: SupervisorConfig | str = f"{path}: a folder isn't responding; is it on a hanging drive?"
        if self._check is None or self._check.done():  # at most one call hangs, however often it is requested
            self._check = asyncio.ensure_future(self._blocking(self._read, path))
            await asyncio.wait({self._check}, timeout=CHECK_SECONDS)
            if self._check.done():
                config = self._check.result()
        return {
            "ok": True,
            "version": self.current.number,
            "since": to_text(self.current.at),
            "path": str(self.current.config.path),
            "problem": self.problem(),
            "needs_restart": list(self.needs_restart),
            "difference": None if isinstance(config, str) else compare(self.current.config, config).as_json(),
            "refused": config if isinstance(config, str) else "",
        }

    async def run(self, stopping: asyncio.Event) -> None:
        """Read the file after each notice of the kernel and now and then, until asked to stop."""
        watch, loop = FolderWatch(every_change=True), asyncio.get_running_loop()
        descriptor = watch.fileno()

        def on_change() -> None:
            watch.drain()
            self._woken.set()

        if descriptor is not None:
            loop.add_reader(descriptor, on_change)
        self._fingerprint = ""  # the file may have changed since the program read it
        try:
            while not stopping.is_set():
                self.pulse.beat()
                self._woken.clear()
                reading = asyncio.ensure_future(self._blocking(self._read_if_changed, watch))
                await wait_until(reading, stopping, PATIENCE_SECONDS)
                if not reading.done() and not stopping.is_set():
                    self._hangs = True
                    log.error("%s", self.problem())
                    await wait_until(reading, stopping)
                    if reading.done():
                        log.info("the configuration's folder responds again")
                if not reading.done():  # it ends in its thread
                    return
                self._hangs = False
                seconds, config = reading.result()
                if isinstance(config, str):
                    self._refuse(config)
                elif config is not None:
                    if self._error:
                        about = LogEvent.CONFIG_VALID.extra()
                        log.info("the configuration %s is valid again", config.path, extra=about)
                    self._error = ""
                    self.apply(config)
                self.pulse.beat(within=seconds)
                await wait_until(self._woken, stopping, seconds)
                await wait_until(None, stopping, QUIET_SECONDS)
        finally:
            if descriptor is not None:
                loop.remove_reader(descriptor)
            watch.close()
            self._hangs = False

    def _read_if_changed(self, watch: FolderWatch) -> tuple[float, SupervisorConfig | str | None]:
        """Read the file if it differs from the last reading; it blocks. Returns the time until the next look, too.

        1. Watch its folder, before the look: no change can fall between. A link's target may be in any folder.
        2. Wait until nobody writes: half a file may look whole.
        3. Read it, and make sure that the content is still the one of step 1.
        """
        path = self.current.config.path
        is_watched = watch.watch(path.parent) and not path.is_symlink()
        seconds = POLL_BESIDE_SECONDS if is_watched else POLL_SECONDS
        content = _fingerprint(path)
        if content == self._fingerprint:
            return seconds, None
        time.sleep(QUIET_SECONDS)
        if _fingerprint(path) != content:
            return 0.0, None
        config = self._read(path)
        if _fingerprint(path) != content:
            return 0.0, None
        self._fingerprint = content
        return seconds, config

    def _read(self, path: Path) -> SupervisorConfig | str:
        """The configuration, or the text of its errors."""
        try:
            return read_config(path)
        except ConfigError as error:
            return str(error)
        except Exception as error:  # the edge: whatever a file may do to its reader, the last good one holds
            log.exception("the configuration couldn't be read")
            return f"{path} couldn't be read ({type(error).__name__}). See the log for details."

    def _refuse(self, error: str) -> None:
        self._error, version = error, self.current.number
        message = "the configuration can't be used; version %d stays active: %s"
        about = LogEvent.CONFIG_REFUSED.extra(version=version, error=error)
        log.error(message, version, "; ".join(error.splitlines()), extra=about)
        if self.history is not None:
            self.history.refuse(error, version)

    def apply(self, config: SupervisorConfig) -> None:
        """Put the workers, teams and commands of this configuration in force; other changes wait for a restart."""
        text_before, self.file_text = self.file_text, config.text
        diff = compare(self.current.config, config)
        waiting = tuple(key for key in diff.needs_restart if key not in self.needs_restart)
        if waiting:
            log.warning("configuration: %s: %s", list_names(diff.needs_restart), RESTART_WORDS)
        elif self.needs_restart and not diff.needs_restart:
            log.info("configuration: a restart of the daemon is no longer needed")
        self.needs_restart = diff.needs_restart
        if diff.live:
            number, active = self.current.number + 1, in_force(self.current.config, config)
            self.current = version = ConfigVersion(number, active, diff, datetime.now(UTC))
            put_commands_in_force(active)
            log.info("configuration version %d is active", number, extra=LogEvent.CONFIG_LOADED.extra(version=number))
            for line in replace(diff, needs_restart=()).in_words():
                log.info("configuration: %s", line)
            for callback in self._subscribers:
                try:
                    callback(version)
                except Exception:  # the edge: one who can't deal with it must not keep it from the others
                    log.exception("configuration version %d didn't reach every service", number)
        if self.history is not None:
            self.history.accept(text_before, config, replace(diff, needs_restart=waiting), self.current.number)


def _fingerprint(path: Path) -> str:
    """Changes with the content of the file and of the `.env` beside it, and with what keeps them from being read."""
    digest = hashlib.sha256()
    for file in (path, path.with_name(ENV_FILE)):
        try:
            with file.open("rb") as opened:
                content = b"=" + opened.read(MAX_BYTES + 1)
        except (OSError, ValueError) as error:
            content = f"!{type(error).__name__}".encode()
        digest.update(b"%d:" % len(content) + content)
    return digest.hexdigest()
