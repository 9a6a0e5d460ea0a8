"""Live processes that claim to be a worker, without a launch of ours on record.

A process claims that in one of two ways: the worker's heartbeat names it, or it has the worker's arguments and working
directory. A heartbeat is a file that others can write, so it never suffices: only a process of our own user that runs
the worker's program, with its arguments, in its working directory is taken for the worker and may be signalled. Every
other claim keeps the worker from being started beside it, and is a person's to look at.

A worker that somebody started by hand is adopted: its process is recorded, and is ours to watch and to stop.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from supervisor_core.common.errors import SupervisorError
from supervisor_core.common.log_events import LogEvent
from supervisor_core.common.text import one_line
from supervisor_core.common.times import to_text
from supervisor_core.host.locks import FileLock, LockedError
from supervisor_core.host.process_facts import linux as platform
from supervisor_core.host.process_facts.facts import ProcessFacts, ProcessIdentity
from supervisor_core.host.process_facts.identity import identity_of, life_of, state
from supervisor_core.processes.finding import FoundWorker, Presence, find, own_line
from supervisor_core.processes.records import (
    RUNNING,
    WorkerRecord,
    lock_path,
    new_generation,
    place_of,
    prepare_folder,
    read_record,
    write_record,
)
from supervisor_core.processes.together import SharedNeed, Steps, stepwise

log = logging.getLogger(__name__)

ROUNDING = timedelta(seconds=1)
"""A beat may lie so far before the start of its process: many programs write whole seconds."""

SHEBANG_BYTES = 256
"""The kernel reads no more of a script's first line."""

LONGEST_SHOWN = 100

_VERSION = re.compile(r"[-.\d]+$")


class Claim(NamedTuple):
    """The process that a heartbeat of this host names. One that isn't fresh blocks nothing, and may still be true."""

    pid: int
    beat_at: datetime
    fresh: bool = True


class CommandForm(NamedTuple):
    """One way in which a worker's command line shows: the program, its name as written, and the words after it."""

    program: str
    name: str
    words: tuple[str, ...]


class ProcessProfile(NamedTuple):
    """The looks of a worker's process. Links are resolved; an unknown program is empty."""

    command: tuple[str, ...]
    cwd: str
    forms: tuple[CommandForm, ...]


class Claimant(NamedTuple):
    """A live process that claims to be the worker. `obstacle` says why it can't be adopted; empty where it can.

    One that isn't `alike` has nothing but the heartbeat that names it.
    """

    pid: int
    name: str
    identity: ProcessIdentity | None
    obstacle: str = ""
    alike: bool = True

    def __str__(self) -> str:
        return f"pid {self.pid} ({self.name})" if self.name else f"pid {self.pid}"


def profile_of(command: Sequence[str], cwd: Path, path: str) -> ProcessProfile:
    """The profile of a worker with this command and this PATH. It touches the disk, on which the worker may lie."""
    folder = os.path.realpath(cwd)
    found = _found(command[0], folder, path)
    program, rest = os.path.realpath(found) if found else "", tuple(command[1:])
    forms = [CommandForm(program, command[0], rest)]
    if interpreter := _shebang(program):
        runs = _found(interpreter[0], folder, path)
        for script in dict.fromkeys((found, program)):
            words = (*interpreter[1:], script, *rest)
            forms.append(CommandForm(os.path.realpath(runs) if runs else "", interpreter[0], words))
    return ProcessProfile(tuple(command), folder, tuple(forms))


def profiles_of(workers: Sequence[tuple[Sequence[str], Path, str]]) -> list[ProcessProfile]:
    """The profile of each of these workers, by command, folder and PATH."""
    return [profile_of(*worker) for worker in workers]


def bare_profile(command: Sequence[str], cwd: Path) -> ProcessProfile:
    """The same without a look at the disk, for a drive that hangs: links aren't resolved."""
    program = command[0] if Path(command[0]).is_absolute() else ""
    return ProcessProfile(tuple(command), str(cwd), (CommandForm(program, command[0], tuple(command[1:])),))


class CommandLines(SharedNeed):
    """The arguments of every process, by a walk that begins after this need."""

    @classmethod
    def answer(cls, needs: Sequence[CommandLines]) -> Sequence[Mapping[int, tuple[str, ...]]]:
        """One walk for all."""
        return [{pid: platform.arguments(pid) for pid in platform.pids()}] * len(needs)


@stepwise
def claimants(
    state_dir: Path, profile: ProcessProfile, named: Sequence[Claim], seen: Sequence[ProcessIdentity], *, search: bool
) -> Steps[tuple[Claimant, ...]]:
    """The processes that claim to be the worker, without those of a launch or an adoption on record here.

    They are the ones in its heartbeats, those `seen` to claim it before and, with a `search` of all processes, those
    with its arguments and working directory.
    """
    lines: Mapping[int, tuple[str, ...]]
    if search:
        lines = yield CommandLines()
    else:
        lines = {each.pid: platform.arguments(each.pid) for each in seen if state(each).running}
    line, found = own_line(), {}
    for claim in named:
        if claim.pid not in line and (claimant := _named(claim, profile)) is not None:
            found[claim.pid] = claimant
    lengths = {len(form.words) + 1 for form in profile.forms}  # of a hundred workers, each compares with all processes
    for pid, arguments in lines.items():
        if len(arguments) in lengths and pid not in line and (claimant := _alike(pid, profile, arguments)) is not None:
            found[pid] = claimant
    if not found:
        return ()
    known = _Known(state_dir)
    left = {pid: known.judged(claimant) for pid, claimant in found.items() if not known.has(pid)}
    # One that ended meanwhile, such as the worker itself, may not have been recognized any more.
    left = {pid: each for pid, each in left.items() if each.identity is None or state(each.identity).running}
    return tuple(left[pid] for pid in sorted(left) if not left.keys() & set(_above(pid)))


def obstacle(pid: int, profile: ProcessProfile) -> str:
    """Why the process can't be taken for the worker, in words; empty where user, program, arguments and working
    directory all are the worker's."""
    ours, theirs = platform.own_owners(), platform.owners(pid)
    if theirs is None:
        return "the system doesn't tell whose it is"
    if theirs != ours:
        return f"it runs as {_users(theirs)}, not as {_users(ours)}"
    program, folder = platform.executable(pid), platform.working_directory(pid)
    matching = _matching(platform.arguments(pid), profile)
    if not matching:
        return "its command line isn't the configured one"
    if program not in {form.program for form in matching} or not program:
        return f"it runs {_shown(program) or 'another program'}, not {matching[0].program or matching[0].name}"
    if folder != profile.cwd:
        return f"it works in {_shown(folder) or 'another directory'}, not in {profile.cwd}"
    return ""


def _named(claim: Claim, profile: ProcessProfile) -> Claimant | None:
    """The process of a heartbeat, unless that can't have written it: it ended, is younger, or is the kernel's."""
    try:
        facts = platform.facts(claim.pid)
    except PermissionError:
        hidden = Claimant(claim.pid, "", None, "the system hides it from this user", alike=False)
        return hidden if claim.fresh else None
    if facts is None or life_of(facts).ended or platform.is_thread(claim.pid) or platform.is_of_kernel(claim.pid):
        return None
    if platform.started_at(facts) > claim.beat_at + ROUNDING:
        return None
    if claimant := _alike(claim.pid, profile, platform.arguments(claim.pid)):
        return claimant
    return _claimant(facts, profile)._replace(alike=False) if claim.fresh else None


def _alike(pid: int, profile: ProcessProfile, arguments: tuple[str, ...]) -> Claimant | None:
    """The process, if it has the worker's arguments and works in its directory, or may do so."""
    matching = _matching(arguments, profile)
    if not matching:
        return None
    facts = platform.glance(pid)
    if facts is None or life_of(facts).ended or platform.working_directory(pid) not in ("", profile.cwd):
        return None
    program = platform.executable(pid)
    kinds = {_kind(arguments[0]), _kind(program)}
    if not any(program == form.program or kinds & {_kind(form.name), _kind(form.program)} for form in matching):
        return None
    return _claimant(facts, profile)


def _claimant(facts: ProcessFacts, profile: ProcessProfile) -> Claimant:
    why = obstacle(facts.pid, profile)
    again = platform.glance(facts.pid)
    if again is None or again.start != facts.start:
        why = why or "it has just exited"
    return Claimant(facts.pid, one_line(facts.name, LONGEST_SHOWN), identity_of(facts), why)


def _matching(arguments: tuple[str, ...], profile: ProcessProfile) -> list[CommandForm]:
    """The forms with these words after the program. A path may be written in another way."""
    return [form for form in profile.forms if arguments and _same(arguments[1:], form.words, profile.cwd)]


def _same(words: tuple[str, ...], others: tuple[str, ...], folder: str) -> bool:
    if len(words) != len(others):
        return False
    for one, other in zip(words, others, strict=True):
        if one != other and not (_may_be_paths(one, other) and _place(one, folder) == _place(other, folder)):
            return False
    return True


def _may_be_paths(one: str, other: str) -> bool:
    """False for two different words of which neither has a folder: they can't name the same place."""
    both = one + other
    return "/" in both or os.sep in both or not (one.strip(".") and other.strip("."))


def _place(word: str, folder: str) -> str:
    return os.path.normpath(os.path.join(folder, word))  # noqa: PTH118 (a Path forgets what normpath takes away)


def _kind(program: str) -> str:
    """The program's name without its version: `python3.11` and `python3` are one kind."""
    name = os.path.basename(program).removesuffix(".exe")  # noqa: PTH119 (a name as some process wrote it)
    return _VERSION.sub("", name) or name or "\0"


def _found(program: str, folder: str, path: str) -> str:
    """The path of the program, as a start in this folder finds it; empty where it doesn't."""
    if os.path.dirname(program):  # noqa: PTH120 (a Path forgets the `./` that makes the difference)
        return _place(program, folder)
    folders = os.pathsep.join(_place(each, folder) for each in path.split(os.pathsep))
    return shutil.which(program, path=folders) or ""


def _shebang(program: str) -> list[str]:
    """The interpreter of a script, and what it is given before the script; empty where the program is no script."""
    try:
        descriptor = os.open(program, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))  # a pipe must not hold us up
    except OSError:
        return []
    try:
        regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
        line = os.read(descriptor, SHEBANG_BYTES).partition(b"\n")[0] if regular else b""
    except OSError:
        return []
    finally:
        os.close(descriptor)
    if not line.startswith(b"#!"):
        return []
    words = line[2:].decode(errors="replace").split(maxsplit=1)
    if words and os.path.basename(words[0]) == "env":  # noqa: PTH119 (as above)
        words = [word for word in " ".join(words[1:]).split() if word != "-S"]
    return [word.strip() for word in words]


def _above(pid: int) -> Iterator[int]:
    """The parents of a process, the nearest first."""
    seen = {pid}
    while (facts := platform.glance(pid)) is not None and facts.ppid not in seen and facts.ppid > 1:
        pid = facts.ppid
        seen.add(pid)
        yield pid


def _users(owners: tuple[int | str, int | str]) -> str:
    real, effective = (_user(each) for each in owners)
    return real if real == effective else f"{real} with the rights of {effective}"


def _user(owner: int | str) -> str:
    try:
        from pwd import getpwuid  # not on Windows, where names are names already

        return getpwuid(int(owner)).pw_name
    except (ImportError, KeyError, ValueError):
        return f"user {owner}"


def _shown(text: str) -> str:
    return one_line(text, LONGEST_SHOWN)


class _Known:
    """The processes that belong to a worker on record in this state folder, whichever worker that is."""

    def __init__(self, state_dir: Path) -> None:
        self._places: list[str] = []
        self._identities: set[ProcessIdentity] = set()
        self._unreadable = ""
        for path in sorted((state_dir / "workers").glob("*.json")):
            try:
                record = read_record(state_dir, path.stem)
            except (SupervisorError, OSError):
                self._unreadable = str(path)
            else:
                self._identities |= {record.identity} if record and record.identity else set()
            self._places.append(place_of(state_dir, path.stem))

    def has(self, pid: int) -> bool:
        """True if the process carries one of their launches, or is one of them or below one of them."""
        if platform.token_of(pid).startswith(tuple(self._places)):
            return True
        line = (facts for each in (pid, *_above(pid)) if (facts := platform.glance(each)) is not None)
        return any(identity_of(facts) in self._identities for facts in line)

    def judged(self, claimant: Claimant) -> Claimant:
        """The claimant, with what speaks against adopting it by the records. Workers may share their arguments."""
        why = claimant.obstacle
        if not why and platform.token_of(claimant.pid):
            why = "a supervisor with another state folder started it"
        if not why and self._unreadable:
            why = f"{self._unreadable} can't be read, and may be its record"
        return claimant._replace(obstacle=why)


LOCK_SECONDS = 0.5
"""Several may look at once, each for some milliseconds. Who starts or stops the worker has the lock for longer."""


def adopt(state_dir: Path, worker_id: str, profile: ProcessProfile, claimant: Claimant) -> FoundWorker | None:
    """Put the process on record as this worker, if nothing of it runs; None where it isn't the worker, or not any more.

    The record has a generation that no process carries: a stop then ends this process with its descendants, and
    never the session of the shell that it was started from.
    """
    facts = _verified(profile, claimant)
    if facts is None:
        return None
    try:
        prepare_folder(state_dir)
    except OSError:  # no supervisor ever worked here, or this user may only look: then it is seen, and not on record
        return _process_to_adopt(_record(state_dir, worker_id, profile, facts), facts)
    try:
        with FileLock(lock_path(state_dir, worker_id), f"adopting {worker_id}").acquire(timeout=LOCK_SECONDS):
            found, facts = find(state_dir, worker_id, locked=True), _verified(profile, claimant)
            if found.presence is not Presence.STOPPED or found.leftovers or facts is None:
                return found  # somebody else was first, or it has just ended
            record = _record(state_dir, worker_id, profile, facts)
            write_record(state_dir, record)
            about = LogEvent.WORKER_ADOPTED.extra(worker_id=worker_id, pid=facts.pid)
            log.info("adopted %s (pid %d), which was already running", worker_id, facts.pid, extra=about)
            return _process_to_adopt(record, facts)
    except LockedError:
        return find(state_dir, worker_id)  # whoever starts or stops it now knows better


def _record(state_dir: Path, worker_id: str, profile: ProcessProfile, facts: ProcessFacts) -> WorkerRecord:
    return WorkerRecord(
        worker_id=worker_id,
        generation=new_generation(state_dir, worker_id),
        state=RUNNING,
        started_at=to_text(platform.started_at(facts)),
        command=profile.command,
        identity=identity_of(facts),
    )


def _process_to_adopt(record: WorkerRecord, facts: ProcessFacts) -> FoundWorker:
    return FoundWorker(record.worker_id, Presence.RUNNING, record, life_of(facts), adopted=True)


def _verified(profile: ProcessProfile, claimant: Claimant) -> ProcessFacts | None:
    """The process, if it is still the one that claimed to be the worker, and nothing speaks against that."""
    before = platform.glance(claimant.pid)
    if before is None or life_of(before).ended or identity_of(before) != claimant.identity:
        return None
    if obstacle(claimant.pid, profile):
        return None
    after = platform.glance(claimant.pid)  # what was compared belongs to this very process
    return after if after is not None and after.start == before.start else None
