"""Hosts whose workers run from checkouts: one with fake processes, where all else is real, and a whole home."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from supervisor_core.cli.host import approvals_of
from supervisor_core.code.change_plan import CodePlan, preview_text
from supervisor_core.code.planning import preview
from supervisor_core.commands.catalog import CATALOG, check_params
from supervisor_core.commands.command import Command, Issuer, Outcome
from supervisor_core.commands.grammar import parse
from supervisor_core.config.load import grammar_context, load_supervisor_config
from supervisor_core.daemon.execution import execute
from supervisor_core.intake.submission import Gateway
from supervisor_core.jobs import results
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.rows import NewJob
from supervisor_core.storage.ledger_file import LEDGER_FILE
from supervisor_core.storage.store import Ledger
from supervisor_core.workers.context import HostContext, open_doors
from supervisor_core.workers.pauses import Pause
from supervisor_core.workers.worker import start_watcher
from tests.support.code.commits import Files
from tests.support.code.repositories import Repository
from tests.support.homes import Home, a_home, demo_command
from tests.support.processes.fake_processes import FakeProcesses

ANNA = Issuer("cli:anna", "anna")
AUTHOR = {"author_name": "The Supervisor", "author_email": "supervisor@example.org"}
WHO = f"{AUTHOR['author_name']} <{AUTHOR['author_email']}>"


@dataclass(frozen=True, slots=True)
class Done:
    """What came of a command, for each of its workers."""

    task_id: str
    outcomes: Mapping[str, Outcome]

    @property
    def outcome(self) -> Outcome:
        """The first of them."""
        return next(iter(self.outcomes.values()))

    @property
    def error(self) -> str:
        """Why it failed; empty where it did not."""
        return self.outcome.error or ""

    @property
    def details(self) -> Mapping[str, Any]:
        """All that the first one tells."""
        return self.outcome.details


class CodeHost:
    """Commands in the words that people use, through the gateway and the ledger, carried out at once.

    All is real but the processes. `workers` is where the code of each one is.
    """

    def __init__(self, folder: Path, workers: Mapping[str, Path | Mapping[str, Any]], **git: str) -> None:
        (folder / "var").mkdir(mode=0o700, parents=True)
        (folder / "nas" / "00_STATE").mkdir(parents=True)
        codes = {name: code if isinstance(code, Mapping) else {"path": str(code)} for name, code in workers.items()}
        self.folder = folder
        self.document: dict[str, Any] = {
            "supervisor": {"id": "TestHost", "state_dir": "var"},
            "nas": {"root": "nas", "layout": "cornerstone"},
            "git": {**AUTHOR, **git},
            "workers": {name: {"command": ["{python}", "-V"], "code": dict(code)} for name, code in codes.items()},
        }
        self.processes = FakeProcesses()
        self.ledger = Ledger(folder / "var" / LEDGER_FILE, "TestHost")
        self.configure()

    def configure(self, **workers: Mapping[str, Any]) -> None:
        """Have these workers as well, or with these settings, as after a start with another configuration."""
        for name, settings in workers.items():
            self.document["workers"].setdefault(name, {"command": ["{python}", "-V"]}).update(settings)
        (self.folder / "config.yaml").write_text(yaml.safe_dump(self.document))
        self.config = load_supervisor_config(self.folder / "config.yaml")
        self.host: HostContext = replace(open_doors(self.config), processes=self.processes, ledger=self.ledger)

    def start(self, *worker_ids: str) -> list[int]:
        """Have these workers running, all where none is named; their PIDs."""
        for name in worker_ids or tuple(self.config.workers):
            start_watcher(self.host, self.config.worker(name))
        return self.pids

    @property
    def pids(self) -> list[int]:
        """Who runs, in the order of the configuration."""
        found = (self.processes.find(name).identity for name in self.config.workers)
        return [identity.pid for identity in found if identity]

    def pause(self, worker_id: str) -> None:
        """Somebody pauses a worker."""
        self.host.pauses.set(worker_id, Pause("cli:bob", label="bob - wait"))

    def command(self, words: str, **params: Any) -> Command:
        """The command in these words, with what only programs say."""
        command = parse(words, grammar_context(self.config))
        return replace(command, params=check_params(CATALOG[command.name], {**command.params, **params}))

    def preview(self, words: str) -> CodePlan:
        """What it would do; of one checkout."""
        (seen,) = preview(self.host, self.command(words))
        json.dumps(seen.as_json())
        return seen

    def pid(self, worker_id: str = "OrionMX") -> int | None:
        """The worker's process."""
        found = self.processes.find(worker_id).identity
        return found.pid if found else None

    def plan(self, handler: str, params: Mapping[str, Any] | None = None) -> CodePlan:
        """The preview of this handler's command."""
        name = {"update_code": "update", "rollback_code": "rollback", "undo_code": "undo"}[handler]
        (seen,) = preview(self.host, Command(name, workers=("OrionMX",), params=params or {}))
        return seen

    def carry_out(self, handler: str, params: Mapping[str, Any] | None = None, task_id: str = "t1") -> Outcome:
        """Queue this command with this id, and carry it out; its result file is written as well."""
        now = datetime.now(UTC)
        new = NewJob(task_id, "OrionMX", handler, dict(params or {}), None, ANNA, "cli", now)
        job = self.ledger.write(lambda connection: jobs.file(connection, "TestHost", new, now))
        assert job is not None
        outcome = execute(job, self.host, self.ledger)
        assert outcome is not None
        while results.deliver(self.host, self.ledger):
            pass
        return outcome

    def all_told(self, *plans: CodePlan) -> bytes:
        """All that anybody can read of what was done: the ledger with its audit trail, result files, these previews."""
        files = [path.read_bytes() for path in self.folder.rglob("*") if path.is_file() and path.name != "config.yaml"]
        texts = [json.dumps(plan.as_json()) + "\n".join(preview_text(plan, datetime.now(UTC))) for plan in plans]
        return b"\n".join([*files, *(text.encode() for text in texts)])

    def do(self, words: str, **params: Any) -> Done:
        """Carry it out, for one worker after the other."""
        issued = Gateway(self.config, self.ledger, approvals_of(self.config, self.ledger)).submit(
            self.command(words, **params), ANNA, "cli"
        )
        filed = self.ledger.read(lambda connection: jobs.of_task(connection, issued.task_id))
        outcomes = {job.worker_id: execute(job, self.host, self.ledger) for job in filed}
        for outcome in outcomes.values():
            assert outcome is not None
            json.dumps(dict(outcome.details))
        return Done(issued.task_id, {name: outcome for name, outcome in outcomes.items() if outcome})

    def did(self, words: str, **params: Any) -> Done:
        """The same, and it succeeded."""
        done = self.do(words, **params)
        assert all(outcome.success for outcome in done.outcomes.values()), done.error
        return done


@contextmanager
def a_code_host(folder: Path, workers: Path | Mapping[str, Path | Mapping[str, Any]], **git: str) -> Iterator[CodeHost]:
    """A host with these checkouts; with one, it is that of `OrionMX`."""
    made = CodeHost(folder, workers if isinstance(workers, Mapping) else {"OrionMX": workers}, **git)
    with made.ledger:
        yield made


@contextmanager
def a_code_place(
    folder: Path,
    checkout: Path,
    *,
    code: Mapping[str, Any] | None = None,
    workers: Sequence[str] = ("OrionMX",),
    checkouts: Mapping[str, Path] | None = None,
) -> Iterator[CodeHost]:
    """A host whose workers run when this begins. `checkouts`: of workers that have one of their own."""
    codes = {name: {**(code or {}), "path": str((checkouts or {}).get(name, checkout))} for name in workers}
    with a_code_host(folder, codes) as host:
        host.start()
        yield host


def done(place: CodeHost, handler: str, task_id: str, /, **params: object) -> None:
    """It goes through, as its preview says."""
    plan = place.plan(handler, params)
    assert plan.ok, (plan.refused, plan.conflict)
    outcome = place.carry_out(handler, params, task_id)
    assert outcome.success, outcome.error
    assert outcome.details["before"] != outcome.details["after"]
    assert place.pid()


def failed(place: CodeHost, handler: str, task_id: str = "t1", /, **params: object) -> str:
    """It fails; the worker runs all the same."""
    outcome = place.carry_out(handler, params, task_id)
    assert not outcome.success
    assert place.pid()
    assert outcome.error is not None
    return outcome.error


@contextmanager
def a_code_home(folder: Path, workers: Mapping[str, Mapping[str, Any]] | Path, **settings: Any) -> Iterator[Home]:
    """A home with demo workers, of which each has its own settings over the usual ones; with a path, it is the
    checkout of `OrionMX`.
    """
    given = workers if isinstance(workers, Mapping) else {"OrionMX": {"code": {"path": str(workers)}}}
    usual = {"command": demo_command(), "start_grace_seconds": 0.2, "stop_timeout_seconds": 10}
    made = {name: {**usual, **worker} for name, worker in given.items()}
    with a_home(folder, made, git=AUTHOR, **settings) as home:
        yield home


def restarted(home: Home, old: int, result: Mapping[str, Any], worker_id: str = "OrionMX") -> int:
    """The worker was asked to end and did, and another one runs in its place; its PID."""
    (new,) = home.running_copies(worker_id)
    turn = result["details"]["workers"][worker_id]
    assert (turn["old_pid"], turn["new_pid"], turn["ending"], turn["error"]) == (old, new, "graceful", None)
    assert new != old
    return new


def audited(home: Home, result: Mapping[str, Any], word: str, by_whom: str) -> dict[str, Any]:
    """The one row of the audit trail about it says what it was, who asked, and this; what the handler told in it."""
    (row,) = home.audit(result["task_id"])
    assert (row["action"], row["outcome"], row["label"]) == (result["handler"].upper(), word, by_whom)
    told: dict[str, Any] = json.loads(row["details_json"])["result"]
    assert told == result["details"]
    return told


def rests(home: Home, result: Mapping[str, Any]) -> bool:
    """It was not started, because somebody has paused it, and nobody else runs either."""
    return "paused" in result["details"]["workers"]["OrionMX"]["rests"] and home.everybody() == []


@dataclass(frozen=True)
class Picture:
    """All of a checkout that a command may have to leave as it is."""

    head: str
    """What git writes down of it: the branch, or a commit where none is checked out."""
    refs: tuple[str, ...]
    worktrees: str
    status: str
    files: Files
    under_way: tuple[str, ...]
    config: str
    stash: str


def picture(checkout: Repository) -> Picture:
    """The checkout as it is now. What was last fetched of its remote is left out."""
    refs = checkout.git("for-each-ref", "--format=%(refname) %(objectname)").splitlines()
    begun = ("MERGE_HEAD", "REVERT_HEAD", "CHERRY_PICK_HEAD", "sequencer", "index.lock", "rebase-merge")
    git_folder = Path(checkout.git("rev-parse", "--absolute-git-dir"))
    return Picture(
        head=(git_folder / "HEAD").read_text(),
        refs=tuple(ref for ref in refs if not ref.startswith("refs/remotes/")),
        worktrees=checkout.git("worktree", "list", "--porcelain"),
        status=checkout.git("status", "--porcelain=v2", "--ignored", "--untracked-files=all"),
        files=checkout.on_disk(),
        under_way=tuple(name for name in begun if (git_folder / name).exists()),
        config=(git_folder / "config").read_text() if (git_folder / "config").exists() else "",
        stash=checkout.git("stash", "list"),
    )


def kept_refs(checkout: Repository) -> dict[str, str]:
    """What is kept under `refs/supervisor/`, by the rest of the name."""
    words = ("for-each-ref", "--format=%(refname:lstrip=2) %(objectname)", "refs/supervisor/")
    return dict(line.split(" ") for line in checkout.git(*words).splitlines())


def message(checkout: Repository, revision: str = "HEAD") -> str:
    """The message of a commit."""
    return checkout.git("log", "-1", "--format=%B", revision)


def by(checkout: Repository, revision: str = "HEAD") -> set[str]:
    """Who made a commit: its author and its committer."""
    return set(checkout.git("log", "-1", "--format=%an <%ae>%n%cn <%ce>", revision).splitlines())
