"""`backup` while the daemon works, and `restore`: the ledger as it was, and nothing from before is run again."""

from __future__ import annotations

import os
import signal
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from supervisor_core.commands.command import Issuer
from supervisor_core.config.load import load_supervisor_config
from supervisor_core.daemon.environment import opened_ledger
from supervisor_core.intake.approvals import rows as approvals
from supervisor_core.jobs import rows as jobs
from tests.support.homes import SUPERVISOR, Home, a_home
from tests.support.intake.approval_states import approval
from tests.support.intake.schedule_homes import make_due, scheduled
from tests.support.programs.armed import armed

ANNA = Issuer("cli:anna", "anna")
POINTS = ("restore:before", "restore:kept", "restore:after")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with a_home(tmp_path / "home") as made:
        yield made


def stopped(home: Home) -> None:
    done = home.supervisor("daemon", "stop")
    assert done.returncode == 0, done.stderr


def backed_up(home: Home, name: str = "copy.db") -> Path:
    done = home.supervisor("backup", name)
    assert done.returncode == 0, done.stderr
    return home.folder / name


def restored(home: Home, path: Path) -> str:
    done = home.supervisor("restore", str(path))
    assert done.returncode == 0, done.stderr
    return done.stdout


def queued(home: Home, task_id: str) -> None:
    """A command that waits for its turn, as one has that was filed a moment before."""
    new = jobs.NewJob(task_id, "OrionMX", "pause", {}, None, ANNA, "cli", datetime.now(UTC))
    with opened_ledger(load_supervisor_config(str(home.config))) as ledger:
        assert ledger.write(lambda connection: jobs.file(connection, "TestHost", new, datetime.now(UTC)))


def actions(home: Home) -> list[str]:
    assert home.supervisor("audit", "verify").returncode == 0
    return [row["action"] for row in home.audit()]


def test_a_backup_of_a_working_daemon_comes_back_while_its_workers_run_on(home: Home) -> None:
    home.start_daemon()
    worker = home.worker("OrionMX")["pid"]
    home.supervisor("send", "diagnostics", "--wait")
    copy = backed_up(home)
    assert copy.stat().st_mode & 0o777 == 0o600
    home.supervisor("send", "diagnostics", "--wait")
    stopped(home)
    text = restored(home, copy)
    assert "The ledger before it is kept as" in text
    assert "Commands that waited in it don't run: request them again." in text
    home.start_daemon()
    assert home.worker("OrionMX")["pid"] == worker
    assert actions(home).count("DIAGNOSTICS") == 1
    assert "LEDGER_RESTORED" in actions(home)
    (kept,) = home.state_dir.glob("ledger.db.replaced-*Z")
    with closing(sqlite3.connect(kept)) as old:
        assert old.execute("SELECT count(*) FROM audit_log_t WHERE action = 'DIAGNOSTICS'").fetchone() == (2,)


def test_a_backup_follows_no_planted_link_and_keeps_nobody_elses_file(home: Home) -> None:
    folder, victim = home.folder / "shared", home.folder / "victim"
    folder.mkdir(mode=0o1777)
    victim.touch()
    queued(home, "task_before")
    for pid in range(os.getpid(), os.getpid() + 3000):  # the names of temporary files can't be guessed
        (folder / f".copy.db.{pid}.tmp").symlink_to(victim)
    (folder / "link.db").symlink_to(folder / "missing.db")
    assert home.supervisor("backup", "shared/link.db").returncode == 1
    assert not (folder / "missing.db").exists()
    copy = backed_up(home, "shared/copy.db")
    assert victim.read_bytes() == b""
    facts = copy.lstat()
    assert (stat.S_IFMT(facts.st_mode), facts.st_mode & 0o777, facts.st_uid) == (stat.S_IFREG, 0o600, os.geteuid())


def test_what_waited_in_the_backup_is_ended_with_the_reason_and_not_run(home: Home) -> None:
    queued(home, "task_waiting")
    copy = backed_up(home)
    restored(home, copy)
    home.start_daemon()
    (row,) = home.audit("task_waiting")
    assert (row["action"], row["outcome"]) == ("PAUSE", "interrupted")
    assert "restored from a backup" in row["details_json"]
    assert home.worker("OrionMX")["paused"] is False


def test_an_approval_from_before_the_backup_must_be_asked_for_again(home: Home) -> None:
    now = datetime.now(UTC)
    waiting = replace(approval(), supervisor_id="TestHost", requested_at=now, expires_at=now + timedelta(hours=1))
    with opened_ledger(load_supervisor_config(str(home.config))) as ledger:
        ledger.write(lambda connection: approvals.file(connection, waiting))
    restored(home, backed_up(home))
    assert home.json("send", "approvals") == []
    (asked, ended) = [row["action"] for row in home.audit(waiting.task_id)]
    assert (asked, ended) == ("APPROVAL_REQUESTED", "STALE")


def test_a_time_of_a_schedule_that_has_passed_is_not_made_up_for(home: Home) -> None:
    home.supervisor("send", 'schedule add nightly "daily 03:00" pause OrionMX hotfix')
    make_due(home, "nightly")
    restored(home, backed_up(home))
    assert datetime.fromisoformat(scheduled(home, "nightly")["next_at"]) > datetime.now(UTC)
    assert "PAUSE" not in actions(home)


@pytest.mark.parametrize("point", POINTS)
def test_killed_on_the_way_the_ledger_is_the_old_one_or_the_backup_and_whole(home: Home, point: str) -> None:
    queued(home, "task_before")
    copy = backed_up(home)
    queued(home, "task_after")
    done = home.supervisor("restore", str(copy), program=armed(point))
    assert done.returncode == -signal.SIGKILL
    with opened_ledger(load_supervisor_config(str(home.config))) as ledger:
        later = ledger.read(lambda connection: jobs.find(connection, "task_after", "OrionMX"))
        assert (later is None) is (point == "restore:after")
    assert home.supervisor("audit", "verify").returncode == 0
    assert "Restored" in restored(home, copy)
    assert not (home.state_dir / "restoring").exists()


def test_a_damaged_ledger_can_be_replaced_and_is_kept(home: Home) -> None:
    queued(home, "task_before")
    copy = backed_up(home)
    (home.state_dir / "ledger.db").write_bytes(b"no database at all")
    restored(home, copy)
    assert actions(home)[-1] == "LEDGER_RESTORED"
    (kept,) = home.state_dir.glob("ledger.db.replaced-*Z")
    assert kept.read_bytes() == b"no database at all"


def test_a_disk_without_room_for_the_old_ledger_keeps_the_ledger_and_no_half_a_copy(home: Home) -> None:
    queued(home, "task_before")
    copy = backed_up(home)
    with closing(sqlite3.connect(home.state_dir / "ledger.db")) as ledger, ledger:
        ledger.execute("CREATE TABLE ballast AS SELECT randomblob(3000000) AS bytes")
    before = (home.state_dir / "ledger.db").read_bytes()
    limited = ("bash", "-c", 'ulimit -f 2000; exec "$@"', "--", *SUPERVISOR)  # in KB, of each file
    done = home.supervisor("restore", str(copy), program=limited)
    assert (done.returncode, "File too large" in done.stderr) == (1, True), done
    assert (home.state_dir / "ledger.db").read_bytes() == before
    assert not list(home.state_dir.glob("ledger.db.replaced-*"))
    assert not (home.state_dir / "restoring").exists()


def test_a_running_daemon_refuses_a_restore_and_an_old_name_a_backup(home: Home) -> None:
    home.start_daemon()
    copy = backed_up(home)
    done = home.supervisor("restore", str(copy))
    assert done.returncode == 1
    assert "already running" in done.stderr
    assert "Run `supervisor daemon stop` first" in done.stderr
    again = home.supervisor("backup", copy.name)
    assert again.returncode == 1
    assert "Choose another name." in again.stderr
    assert home.status()["healthy"]


def test_the_backup_of_a_hub_or_of_another_host_is_taken_only_by_force(home: Home) -> None:
    queued(home, "task_before")
    home.start_daemon()
    stopped(home)
    hub = backed_up(home)
    with closing(sqlite3.connect(hub)) as connection, connection:
        columns = "host_id, public_key, state, joined_at, version, workers_json"
        connection.execute(f"INSERT INTO fleet_hosts_t ({columns}) VALUES ('TestHost', 'UX', 'joined', '', '', '{{}}')")
    foreign = backed_up(home, "foreign.db")
    settings = home.config.read_text()
    for path, words, name in (
        (hub, "is of the hub of a fleet with 1 host", "TestHost"),
        (foreign, "is of TestHost", "X"),
    ):
        home.config.write_text(settings.replace("TestHost", name))
        refused = home.supervisor("restore", str(path))
        assert (refused.returncode, refused.stdout) == (1, "")
        assert words in refused.stderr
        assert "--force" in refused.stderr
        assert not list(home.state_dir.glob("ledger.db.replaced-*"))
    home.config.write_text(settings)
    assert "Restored the ledger" in home.supervisor("restore", str(hub), "--force").stdout


def test_what_is_no_backup_of_this_host_is_refused_and_changes_nothing(home: Home, tmp_path: Path) -> None:
    queued(home, "task_before")
    copy = backed_up(home)
    (home.folder / "text.db").write_text("hello")
    newer = home.folder / "newer.db"
    newer.write_bytes(copy.read_bytes())
    with closing(sqlite3.connect(newer)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    altered = home.folder / "altered.db"
    with a_home(tmp_path / "other", supervisor={"id": "OtherHost", "state_dir": "var"}) as other:
        other.start_daemon()
        other.supervisor("send", "diagnostics", "--wait")
        foreign = backed_up(other)
    altered.write_bytes(foreign.read_bytes())
    for path, words in (
        (home.folder / "text.db", "isn't a backup"),
        (newer, "version 9999"),
        (foreign, "is of OtherHost, and this host is TestHost"),
        (home.folder / "missing.db", "isn't a file"),
    ):
        done = home.supervisor("restore", str(path))
        assert done.returncode == 1
        assert words in done.stderr
    assert not list(home.state_dir.glob("ledger.db.replaced-*Z"))
