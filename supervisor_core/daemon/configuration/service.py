"""The configuration as a service: its file is watched, and each good change becomes a version.

Subscribers get versions and never read the file. While the file is wrong, the last good version holds. A rollout that
restarts several workers stops at the first one that fails with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from supervisor_core.common.errors import ConfigError
from supervisor_core.common.log_events import LogEvent
from supervisor_core.common.service import Blocking, Service, wait_until
from supervisor_core.common.service_names import CONFIGURATION
from supervisor_core.common.times import to_text
from supervisor_core.config.diff import RESTART_WORDS, ConfigDiff, compare, in_force, list_names
from supervisor_core.config.load import SupervisorConfig, put_commands_in_force, read_config
from supervisor_core.daemon.configuration import last_good
from supervisor_core.daemon.configuration.files import ConfigFiles, FileWatches
from supervisor_core.workers.planning import Action, Why

QUIET_SECONDS = 0.2
"""For how long the files must stay as they are before they are read: a half-written file may look whole."""

POLL_SECONDS = 2.0
"""Between two looks where the kernel can't tell of changes."""

POLL_BESIDE_SECONDS = 30.0
"""The same where it can: for a file that was removed, a link that was changed, another host's write to the drive."""

PATIENCE_SECONDS = 5.0
"""A check that takes longer is reported. The service keeps waiting for it and starts no second one."""

CHECK_SECONDS = 5.0
"""Timeout of a requested check of the file."""

T = TypeVar("T")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ConfigVersion:
    """A configuration that is in force, and how it differs from the one before."""

    number: int
    config: SupervisorConfig
    """With the workers, teams and commands of the file; all other sections as the daemon was started with them."""
    diff: ConfigDiff
    at: datetime


class _Stopped(Exception):
    """The service was told to stop while it waited to read the configuration."""


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
        self._files = ConfigFiles(config.path)
        self._watches = FileWatches(self.wake)
        self._followed: tuple[Path, ...] = ()
        self._watch: Callable[[], None] = lambda: None
        """Watches the followed folders once more: another one may be in the place of one."""
        self._subscribers: list[Callable[[ConfigVersion], None]] = []
        self.refused: Callable[[str, int], None] = lambda _words, _version: None
        """Called on the event loop once for each content that can't be used, with what is wrong and which version
        stays in force."""
        self._woken = asyncio.Event()
        self._seen: str | None = None
        """The content that was dealt with last, as a fingerprint: good or not, it need not be read again."""
        self._bad = ""
        self._hangs = False
        self._asked: asyncio.Future[SupervisorConfig | str] | None = None

    def subscribe(self, callback: Callable[[ConfigVersion], None]) -> None:
        """Have this called on the event loop with each version to come: new workers, teams or commands."""
        self._subscribers.append(callback)

    def wake(self) -> None:
        """Look at the files now. On the event loop."""
        self._woken.set()

    def problem(self) -> str:
        """The problem of the file in a line, with the active version; empty if there is none."""
        stays = f"version {self.current.number} stays active"
        if self._hangs:
            return f"the configuration's folder, {self._files.path.parent}, isn't responding; {stays}"
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
        path = Path(str(request.get("path") or self._files.path))
        found = await self._read_for_others(path)
        current = self.current
        return {
            "ok": True,
            "version": current.number,
            "since": to_text(current.at),
            "path": str(self._files.path),
            "problem": self.problem(),
            "needs_restart": list(self.needs_restart),
            "difference": None if isinstance(found, str) else compare(current.config, found).as_json(),
            "refused": found if isinstance(found, str) else "",
        }

    async def _read_for_others(self, path: Path) -> SupervisorConfig | str:
        """Check with a timeout; there is at most one hanging call, however often it is requested."""
        if self._asked is None or self._asked.done():
            self._asked = asyncio.ensure_future(self._blocking(self._load_or_why, path))
            await asyncio.wait({self._asked}, timeout=CHECK_SECONDS)
            if self._asked.done():
                return self._asked.result()
        return f"{path}: a folder isn't responding; is it on a hanging drive?"

    async def initialise(self) -> None:
        """Start over: the file may have changed since the program read it, so the first check assumes nothing."""
        self._seen = None
        self._woken.set()

    async def run(self, stopping: asyncio.Event) -> None:
        """Look at each hint and now and then; until asked to stop."""
        with contextlib.suppress(_Stopped):
            while not stopping.is_set():
                seconds = POLL_BESIDE_SECONDS if self._watches.all_heard else POLL_SECONDS
                self.pulse.beat(within=seconds)
                await wait_until(self._woken, stopping, seconds)
                self.pulse.beat()
                self._woken.clear()
                await self._look(stopping)
                await wait_until(None, stopping, QUIET_SECONDS)  # a folder with many writes keeps nobody busy

    async def shut_down(self) -> None:
        """Stop watching."""
        self._watches.close()
        self._followed = ()
        self._hangs = False

    async def _look(self, stopping: asyncio.Event) -> None:
        """Read what has changed, once it has stayed the same for a while. Watched first: no change can fall between."""
        folders, content = await self._off_the_loop(stopping, self._watched_content, self._followed, self._watch)
        if content is None:
            self._watch = self._watches.follow(folders)
            self._followed = folders
            await self._off_the_loop(stopping, self._watch)
            content = await self._off_the_loop(stopping, self._files.fingerprint)
        while content != self._seen:
            await wait_until(None, stopping, QUIET_SECONDS)
            before, content = content, await self._off_the_loop(stopping, self._files.fingerprint)
            if content != before:
                continue
            found = await self._off_the_loop(stopping, self._load_or_why, self._files.path)
            content = await self._off_the_loop(stopping, self._files.fingerprint)
            if content == before:
                self._seen = content
                self._take(found)
                await self._off_the_loop(stopping, _keep, found)

    def _watched_content(
        self, followed: tuple[Path, ...], watch: Callable[[], None]
    ) -> tuple[tuple[Path, ...], str | None]:
        """The folders, and the files' content after `watch`; None if other folders must be followed first."""
        folders = self._files.folders()
        if folders != followed:
            return folders, None
        watch()
        return folders, self._files.fingerprint()

    async def _off_the_loop(self, stopping: asyncio.Event, work: Callable[..., T], *arguments: Any) -> T:  # noqa: ANN401
        """Return the result of `work`; raise `_Stopped` when told to stop first, and leave the call to its thread."""
        if stopping.is_set():
            raise _Stopped
        call = asyncio.ensure_future(self._blocking(work, *arguments))
        try:
            await wait_until(call, stopping, PATIENCE_SECONDS)
            if not call.done() and not stopping.is_set():
                self._hangs = True
                log.error("%s", self.problem())
                await wait_until(call, stopping)
                if call.done():
                    log.info("the configuration's folder responds again")
            if not call.done():
                raise _Stopped
            self._hangs = False
            return call.result()
        finally:
            call.cancel()

    def _load_or_why(self, path: Path) -> SupervisorConfig | str:
        try:
            return self._load(path)
        except ConfigError as error:
            return str(error)
        except Exception as error:  # the edge: whatever a file may do to its reader, the last good one holds
            log.exception("the configuration couldn't be read")
            return f"{path} couldn't be read ({type(error).__name__}). See the log for details."

    def _take(self, found: SupervisorConfig | str) -> None:
        """Put it in force where it is right, and say so; else say what is wrong, once."""
        version = self.current
        if isinstance(found, str):
            self._bad = found
            words = "the configuration can't be used; version %d stays active: %s"
            about = LogEvent.CONFIG_REFUSED.extra(version=version.number, error=found)
            log.error(words, version.number, "; ".join(found.splitlines()), extra=about)
            self.refused(found, version.number)
            return
        if self._bad:
            self._bad = ""
            log.info("the configuration %s is valid again", self._files.path, extra=LogEvent.CONFIG_VALID.extra())
        self.apply(found)

    def apply(self, found: SupervisorConfig) -> None:
        """Put the workers, teams and commands of this configuration in force; other changes wait for a restart."""
        version, self.file_text = self.current, found.text
        diff = compare(version.config, found)
        self._tell_what_waits(diff.needs_restart)
        if not diff.live:
            return
        new = ConfigVersion(version.number + 1, in_force(version.config, found), diff, datetime.now(UTC))
        self.current = new
        put_commands_in_force(new.config)
        about = LogEvent.CONFIG_LOADED.extra(version=new.number)
        log.info("configuration version %d is active", new.number, extra=about)
        for words in replace(diff, needs_restart=()).in_words():
            log.info("configuration: %s", words)
        self._publish(new)

    def _tell_what_waits(self, keys: tuple[str, ...]) -> None:
        if keys and keys != self.needs_restart:
            log.warning("configuration: %s: %s", list_names(keys), RESTART_WORDS)
        elif self.needs_restart and not keys:
            log.info("configuration: a restart of the daemon is no longer needed")
        self.needs_restart = keys

    def _publish(self, version: ConfigVersion) -> None:
        for callback in self._subscribers:
            try:
                callback(version)
            except Exception:  # the edge: one who can't deal with it must not keep it from the others
                log.exception("configuration version %d didn't reach every service", version.number)


def _keep(found: SupervisorConfig | str) -> None:
    """Keep a good configuration for commands that meet a broken file."""
    if isinstance(found, str):
        return
    try:
        last_good.keep(found)
    except OSError as error:
        log.warning("the last valid configuration couldn't be saved: %s", error)


AT_REST = frozenset({Why.PAUSED, Why.NOT_ENABLED, Why.NOT_CONFIGURED, Why.ENDED})
"""Valid reasons for a worker not to run."""


class Rollout:
    """Of the newest version; an older one is forgotten with the next."""

    def __init__(self) -> None:
        self._version = 0
        self._restarted: set[str] = set()
        self._announced: frozenset[str] = frozenset()
        self.waits_for: frozenset[str] = frozenset()
        """The workers that the rollout waits for."""

    def held_back(self, version: int, actions: Mapping[str, Action], running: Collection[str]) -> dict[str, Action]:
        """Return the actions, without further restarts for this version while a restarted worker isn't `running`.

        A worker that shouldn't run doesn't count."""
        if version != self._version:
            self._version, self._restarted, self._announced, self.waits_for = version, set(), frozenset(), frozenset()
        changed = frozenset(each for each, action in actions.items() if action.why is Why.CHANGED)
        self._restarted -= {each for each, action in actions.items() if action.why in AT_REST}
        failed = sorted(self._restarted - set(running) - changed)
        if changed and failed:
            self._tell_halt(failed, changed)
            return {each: action for each, action in actions.items() if each not in changed}
        if not failed:  # else this look was not at those who wait, and they go on to do so
            self.waits_for = frozenset()
        self._announce(changed)
        self._restarted |= changed
        return dict(actions)

    def _announce(self, changed: frozenset[str]) -> None:
        """Beforehand, and each set of workers once."""
        if len(changed) > 1 and not changed <= self._announced:
            self._announced |= changed
            words = "configuration version %d restarts %d workers, one at a time: %s"
            log.warning(words, self._version, len(changed), ", ".join(sorted(changed)))

    def _tell_halt(self, failed: Collection[str], changed: Collection[str]) -> None:
        if self.waits_for != frozenset(failed):
            words = "%s fails with configuration version %d, so these keep their older settings: %s"
            log.error(words, ", ".join(failed), self._version, ", ".join(sorted(changed)))
        self.waits_for = frozenset(failed)
