"""One round of forwarding, as the daemon and a pass do it: connect, bring what is new, say what waits."""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from supervisor_core.common.errors import SupervisorError, describe
from supervisor_core.common.threads import DaemonThreads
from supervisor_core.config.load import SupervisorConfig

if TYPE_CHECKING:
    from supervisor_core.daemon.replication.replicator import Replicator
    from supervisor_core.storage.store import Ledger

PASS_SECONDS = 5.0
"""Longest time of forwarding in a pass once the database responds; the next pass continues."""

ANSWER_SECONDS = 2.0
"""Longest wait of a pass for an unresponsive database."""

UPGRADE_SECONDS = 30.0
"""Longest wait of a pass for an upgrade of the tables. A server may undo an upgrade that is cut off, and a host without
a daemon would start it again in each pass."""

NOT_CONFIGURED = "no shared database is configured (database.url)"
IS_THE_LEDGER = "database.url is the ledger itself"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ReplicationRound:
    """The result of one round."""

    rows: int = 0
    """The number of forwarded rows."""
    waiting: int = 0
    """The number of rows that are not there yet, as far as known."""
    problem: str = ""
    """The reason in words; empty on success."""


def waiting_rows_text(waiting: int) -> str:
    """Format the number of waiting rows."""
    return f"{waiting} row{'' if waiting == 1 else 's'} waiting"


def disabled_reason(config: SupervisorConfig) -> str:
    """Return why this host forwards nothing; empty if it does."""
    url = config.database.url.get_secret_value()
    if not url:
        return NOT_CONFIGURED
    if config.ledger_url:
        return IS_THE_LEDGER
    parts = urlsplit(url)
    if parts.scheme != "sqlite":
        return ""
    there = Path(unquote(parts.path.removeprefix("/").removeprefix("file:")))
    return IS_THE_LEDGER if there.resolve() == (config.state_dir / "ledger.db").resolve() else ""


def open_replicator(config: SupervisorConfig, ledger: Ledger) -> Replicator:
    """Open the replicator of this host's ledger. The import is late, because most hosts don't need it."""
    from supervisor_core.daemon.replication.replicator import Replicator

    return Replicator(ledger, config.database.url.get_secret_value(), config.database.query_timeout_seconds)


class ReplicationRounds:
    """Rounds of one `Forwarding`, in any thread, one at a time. Never raises; a result carries the problem."""

    def __init__(self, forwarding: Replicator) -> None:
        self._forwarding = forwarding
        self.answered = threading.Event()
        """Set when the database has answered in this round."""
        self.upgrading = threading.Event()
        """Set when its tables must be made or changed first."""
        self.ready = threading.Event()
        """Set when its tables are ours."""
        self.halt = threading.Event()
        """Set from outside: end after the batch in hand."""
        self.moved_at = time.monotonic()
        """The time of the last progress, to notice a hanging round."""
        self._unexpected = ""

    def once(self) -> ReplicationRound:
        """Bring everything that is there."""
        rows, problem = 0, ""
        self.moved_at = time.monotonic()
        try:
            self._forwarding.reach()
            self.answered.set()
            if self._forwarding.is_behind():
                self.upgrading.set()
            self._forwarding.connect()
            self.ready.set()
            more = True
            while more and not self.halt.is_set():
                self.moved_at = time.monotonic()
                batch = self._forwarding.batch()
                rows, more = rows + batch.rows, batch.full
            self._forwarding.note()
        except SupervisorError as error:
            problem = str(error)
        except Exception as error:  # the edge: a mistake here must not take down what works without it
            problem = f"Forwarding failed: {describe(error)}"
            # Once, not each time that it is tried; and not where it was left behind, with the ledger closed already.
            if problem != self._unexpected and not self.halt.is_set():
                log.exception("forwarding to the shared database failed")
            self._unexpected = problem
        finally:
            self._forwarding.close()
        return ReplicationRound(rows, self.waiting(), problem)

    def over(self) -> None:
        """Release everything that waits for a step of this round."""
        self.answered.set()
        self.ready.set()

    def so_far(self) -> str:
        """Say what the database did in an unfinished round."""
        if not self.answered.is_set():
            return "didn't respond"
        return "wasn't upgraded" if self.upgrading.is_set() and not self.ready.is_set() else "didn't accept all rows"

    def waiting(self) -> int:
        """Return the number of waiting rows; 0 if the ledger can't be read."""
        try:
            return self._forwarding.waiting()
        except Exception:
            log.exception("the rows waiting for the shared database can't be counted")
            return 0


def forward_now(config: SupervisorConfig, ledger: Ledger, seconds: float = PASS_SECONDS) -> ReplicationRound:
    """Forward new rows at the end of a pass, within a time limit.

    Nothing is lost on a failure: the next pass or the daemon continues from the database's state.
    """
    if disabled_reason(config):
        return ReplicationRound()
    rounds = ReplicationRounds(open_replicator(config, ledger))
    begun = time.monotonic()
    future = DaemonThreads("forwarding", 1, idle_seconds=0).submit(rounds.once)
    future.add_done_callback(lambda _: rounds.over())
    _wait_for(rounds, future, seconds)
    if future.done():
        done = future.result()
    else:
        rounds.halt.set()
        waited = time.monotonic() - begun
        words = f"The shared database {rounds.so_far()} in {waited:.1f} s. The rest follows next time."
        done = ReplicationRound(0, rounds.waiting(), words)
    if done.problem:
        log.warning("%s %s", done.problem, waiting_rows_text(done.waiting))
    return done


def _wait_for(rounds: ReplicationRounds, future: Future[ReplicationRound], seconds: float) -> None:
    """Wait for a round as long as each of its steps may take."""
    deadline = time.monotonic() + seconds
    if not rounds.answered.wait(min(ANSWER_SECONDS, seconds)):
        return
    if not rounds.ready.wait(max(0.0, deadline - time.monotonic())) and rounds.upgrading.is_set():
        rounds.ready.wait(UPGRADE_SECONDS)
        deadline = time.monotonic() + seconds  # the rows have all of theirs
    with suppress(TimeoutError):
        future.result(max(0.0, deadline - time.monotonic()))
