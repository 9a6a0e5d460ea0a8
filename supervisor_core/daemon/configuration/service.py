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

POLL_SECONDS = 2.0
"""Between two looks where the kernel can't tell of changes."""

POLL_BESIDE_SECONDS = 30.0
"""The same where it can, for another host's write to a shared drive."""

PATIENCE_SECONDS = 5.0
"""A check that takes longer is reported. The service keeps waiting for it and starts no second one."""

CHECK_SECONDS = 5.0
"""Timeout of a requested check of the file."""

MAX_LOOKS = 20
"""Looks at a file that keeps changing, before the service takes a breath."""

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
    """Watches the configuration and the `.env` beside it, by the kernel's events and by polling.

    Until it's started, only `apply` changes the configuration.
    """

    name = CONFIGURATION

    def __init__(
        self,
        config: SupervisorConfig,
        blocking: Blocking | None = None,
        load: Callable[[Path], SupervisorConfig] = read_config,
    ) -> None:
        super().__init__()
        self.current = ConfigVersion(1, config, ConfigDiff(), datetime.now(UTC))
        """The active version, numbered from 1. It is replaced in one assignment, so any thread may read it."""
        self.file_text = config.text
        """The text of the newest file that could be used."""
        self.needs_restart: tuple[str, ...] = ()
        """Settings that differ in the file from what the daemon was started with, and wait for its restart."""
        self._blocking = blocking or Blocking()
        self._load = load
        self._subscribers: list[Callable[[ConfigVersion], None]] = []
        self.history: ConfigHistory | None = None
        """Records what was applied or refused; None in a library's program."""
        self._woken = asyncio.Event()
        self._seen = ""
        """The fingerprint of the newest content, good or not, that was read."""
        self._bad = ""
        self._hangs = False
        self._requested: asyncio.Future[SupervisorConfig | str] | None = None

    def subscribe(self, callback: Callable[[ConfigVersion], None]) -> None:
        """Have this called on the event loop with each version to come: new workers, teams or commands."""
        self._subscribers.append(callback)

    def problem(self) -> str:
        """The problem of the file in a line, with the active version; empty if there is none."""
        stays = f"version {self.current.number} stays active"
        if self._hangs:
            return f"the configuration's folder, {self.current.config.path.parent}, isn't responding; {stays}"
        if not self._bad:
            return ""
        first, *more = self._bad.splitlines()
        others = f" (and {len(more)} more)" if more else ""
        return f"{first}{others}; {stays}"

    async def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The control door's `config`: what this daemon would do with the file at `path`, read by the daemon itself.

        `{"do": "config", "path": "/abs/config.yaml"}` is answered with `{"ok", "version", "since", "path", "problem",
        "needs_restart", "difference": ConfigDiff.as_json()}`; where the daemon can't use that file, `difference` is
        null and `refused` says why. Without `path` it is about the daemon's own file. Names only, never a value.
        """
        path = Path(str(request.get("path") or self.current.config.path))
        found = await self._read_for_others(path)
        current = self.current
        return {
            "ok": True,
            "version": current.number,
            "since": to_text(current.at),
            "path": str(self.current.config.path),
            "problem": self.problem(),
            "needs_restart": list(self.needs_restart),
            "difference": None if isinstance(found, str) else compare(current.config, found).as_json(),
            "refused": found if isinstance(found, str) else "",
        }

    async def _read_for_others(self, path: Path) -> SupervisorConfig | str:
        """Check with a timeout; there is at most one hanging call, however often it is requested."""
        if self._requested is None or self._requested.done():
            self._requested = asyncio.ensure_future(self._blocking(self._load_or_explain, path))
            await asyncio.wait({self._requested}, timeout=CHECK_SECONDS)
            if self._requested.done():
                return self._requested.result()
        return f"{path}: a folder isn't responding; is it on a hanging drive?"

    async def initialise(self) -> None:
        """Start over: the file may have changed since the program read it, so the first check assumes nothing."""
        self._seen = ""

    async def run(self, stopping: asyncio.Event) -> None:
        """Read the file after each notice of the kernel and now and then, until asked to stop."""
        watch, loop = FolderWatch(every_change=True), asyncio.get_running_loop()
        descriptor = watch.fileno()
        if descriptor is not None:
            loop.add_reader(descriptor, self._on_change, watch)
        try:
            while not stopping.is_set():
                self.pulse.beat()
                self._woken.clear()
                reading = asyncio.ensure_future(self._blocking(self._read_if_changed, watch))
                if not await self._is_done(reading, stopping):
                    return
                is_watched, found = reading.result()
                if found is not None:
                    self._take(found)
                seconds = POLL_BESIDE_SECONDS if is_watched else POLL_SECONDS
                self.pulse.beat(within=seconds)
                await wait_until(self._woken, stopping, seconds)
                await wait_until(None, stopping, QUIET_SECONDS)
        finally:
            if descriptor is not None:
                loop.remove_reader(descriptor)
            watch.close()
            self._hangs = False

    def _on_change(self, watch: FolderWatch) -> None:
        watch.drain()
        self._woken.set()

    async def _is_done(self, reading: asyncio.Future[Any], stopping: asyncio.Event) -> bool:
        """Wait for the call, and report one that hangs; False when told to stop first. It then ends in its thread."""
        await wait_until(reading, stopping, PATIENCE_SECONDS)
        if not reading.done() and not stopping.is_set():
            self._hangs = True
            log.error("%s", self.problem())
            await wait_until(reading, stopping)
            if reading.done():
                log.info("the configuration's folder responds again")
        self._hangs = False
        return reading.done()

    def _read_if_changed(self, watch: FolderWatch) -> tuple[bool, SupervisorConfig | str | None]:
        """Read the file if it differs from the last reading and stays the same for a moment; it blocks.

        1. Watch its folder, before the look: no change can fall between. A link's target may be in any folder.
        2. Wait until nobody writes: half a file may look whole.
        3. Read it, and make sure that the content is still the one of step 2.
        """
        path = self.current.config.path
        is_watched = watch.watch(path.parent) and not path.is_symlink()
        content = _fingerprint(path)
        for _ in range(MAX_LOOKS):
            if content == self._seen:
                break
            time.sleep(QUIET_SECONDS)
            before, content = content, _fingerprint(path)
            if content == before:
                found = self._load_or_explain(path)
                content = _fingerprint(path)
                if content == before:
                    self._seen = content
                    return is_watched, found
        return is_watched and content == self._seen, None

    def _load_or_explain(self, path: Path) -> SupervisorConfig | str:
        try:
            return self._load(path)
        except ConfigError as error:
            return str(error)
        except Exception as error:  # the edge: whatever a file may do to its reader, the last good one holds
            log.exception("the configuration couldn't be read")
            return f"{path} couldn't be read ({type(error).__name__}). See the log for details."

    def _take(self, found: SupervisorConfig | str) -> None:
        """Put a good file in force; else say what is wrong, once."""
        version = self.current.number
        if isinstance(found, str):
            self._bad = found
            words = "the configuration can't be used; version %d stays active: %s"
            about = LogEvent.CONFIG_REFUSED.extra(version=version, error=found)
            log.error(words, version, "; ".join(found.splitlines()), extra=about)
            if self.history is not None:
                self.history.refuse(found, version)
            return
        if self._bad:
            self._bad = ""
            log.info("the configuration %s is valid again", found.path, extra=LogEvent.CONFIG_VALID.extra())
        self.apply(found)

    def apply(self, found: SupervisorConfig) -> None:
        """Put the workers, teams and commands of this configuration in force; other changes wait for a restart."""
        before, self.file_text = self.file_text, found.text
        diff = compare(self.current.config, found)
        waiting = tuple(key for key in diff.needs_restart if key not in self.needs_restart)
        if waiting:
            log.warning("configuration: %s: %s", list_names(diff.needs_restart), RESTART_WORDS)
        elif self.needs_restart and not diff.needs_restart:
            log.info("configuration: a restart of the daemon is no longer needed")
        self.needs_restart = diff.needs_restart
        if diff.live:
            self._activate(found, diff)
        if self.history is not None:
            self.history.accept(before, found, replace(diff, needs_restart=waiting), self.current.number)

    def _activate(self, found: SupervisorConfig, diff: ConfigDiff) -> None:
        version = self.current
        new = ConfigVersion(version.number + 1, in_force(version.config, found), diff, datetime.now(UTC))
        self.current = new
        put_commands_in_force(new.config)
        about = LogEvent.CONFIG_LOADED.extra(version=new.number)
        log.info("configuration version %d is active", new.number, extra=about)
        for words in replace(diff, needs_restart=()).in_words():
            log.info("configuration: %s", words)
        for callback in self._subscribers:
            try:
                callback(new)
            except Exception:  # the edge: one who can't deal with it must not keep it from the others
                log.exception("configuration version %d didn't reach every service", new.number)


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
