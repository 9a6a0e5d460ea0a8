"""What doctor says of git and of the shared database."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from sqlalchemy import make_url

from supervisor_core.config.load import SupervisorConfig, load_supervisor_config
from supervisor_core.demo.repository import Repository, make_repository
from supervisor_core.doctor import daemon, host
from supervisor_core.doctor import storage as database
from supervisor_core.doctor.checks import run_checks
from supervisor_core.doctor.table import CORE_CHECKS
from supervisor_core.storage.shared_database import SharedDatabase


@pytest.fixture
def made(tmp_path: Path) -> Repository:
    (tmp_path / "code").mkdir()
    return make_repository(tmp_path / "code")


def configured(folder: Path, code: dict[str, Any] | None = None, **settings: Any) -> SupervisorConfig:
    worker = {"command": ["x"], **({"code": code} if code is not None else {})}
    (folder / "config.yaml").write_text(yaml.safe_dump({"workers": {"OrionMX": worker}, **settings}))
    return load_supervisor_config(folder / "config.yaml", environ={})


def test_a_checkout_in_order_is_told_to_be(made: Repository, tmp_path: Path) -> None:
    check = host.check_git(configured(tmp_path, {"path": str(made.checkout)}))
    assert (check.ok, check.message.startswith("git "), ";" in check.message) == (True, True, False)


def test_changes_are_a_remark_and_files_that_git_does_not_know_are_none(made: Repository, tmp_path: Path) -> None:
    (made.checkout / "new").write_text("")
    assert ";" not in host.check_git(configured(tmp_path, {"path": str(made.checkout)})).message
    (made.checkout / "watcher.py").write_text("by hand")
    check = host.check_git(configured(tmp_path, {"path": str(made.checkout)}))
    assert (check.ok, "uncommitted changes" in check.message) == (True, True)


def test_another_branch_and_a_lock_fail_for_then_nothing_can_be_updated(made: Repository, tmp_path: Path) -> None:
    check = host.check_git(configured(tmp_path, {"path": str(made.checkout), "branch": "stable"}))
    assert (check.ok, "is on branch main, not stable" in check.message) == (False, True)
    assert "switch stable" in check.remedy
    (made.checkout / ".git" / "index.lock").write_text("")
    check = host.check_git(configured(tmp_path, {"path": str(made.checkout)}))
    assert (check.ok, "index.lock exists" in check.message) == (False, True)


def test_no_checkout_fails_only_where_one_is_configured(tmp_path: Path) -> None:
    check = host.check_git(configured(tmp_path))
    assert (check.ok, "no update or rollback: OrionMX" in check.message) == (True, True)
    check = host.check_git(configured(tmp_path, {"path": str(tmp_path / "nowhere")}))
    assert (check.ok, "isn't a git checkout" in check.message) == (False, True)
    assert "workers.OrionMX.code.path" in check.remedy


def test_a_revert_that_was_not_ended_fails_and_says_how_to_end_it(made: Repository, tmp_path: Path) -> None:
    (made.checkout / ".git" / "REVERT_HEAD").write_text("0" * 40)
    check = host.check_git(configured(tmp_path, {"path": str(made.checkout)}))
    assert not check.ok
    assert f"git -C {made.checkout} revert --abort" in check.remedy


def test_without_git_doctor_says_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    check = next(each for each in run_checks(CORE_CHECKS, configured(tmp_path)) if each.name == "git")
    assert (check.ok, check.message, check.remedy) == (False, "The program git isn't installed.", "Install git.")


@pytest.mark.parametrize("other", ["", "the disk is full"])
def test_the_drives_problem_is_told_by_its_own_check_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    config = configured(tmp_path, nas={"root": str(tmp_path / "away")})
    problem = f"The drive isn't mounted: {config.drive_root} isn't a folder."
    services = [
        {"name": "queue_processor", "health": "degraded", "reason": f"{problem} Mount it."},
        {"name": "scheduler", "health": "degraded" if other else "ok", "reason": other},
    ]
    status = {"services": services, "supervisor": {"pid": 7}}
    monkeypatch.setattr(daemon, "observe_daemon", lambda config: daemon.DaemonState("running", status))
    checks = {each.name: each for each in run_checks(CORE_CHECKS, config)}
    assert not checks["drive"].ok
    assert checks["drive"].message == problem
    found = checks["daemon"]
    assert not found.ok
    if other:
        assert "scheduler: the disk is full" in found.message
        assert "Check its log" in found.remedy
    else:
        assert found.message == "running (pid 7), but queue_processor can't use the drive"
        assert found.remedy == "Fix the drive. The daemon then continues on its own."


def test_a_database_is_reached_or_named_with_what_to_do(tmp_path: Path, database_url: str) -> None:
    url = make_url(database_url)
    url = url.set(host="localhost") if url.host is None and "psycopg" in database_url else url
    config = configured(tmp_path, database={"url": url.render_as_string(hide_password=False)})
    check = database.check_database(config)
    assert (check.ok, "supervisor db upgrade" in check.remedy) == (False, True), check.message
    SharedDatabase(database_url, 5).create_tables()
    check = database.check_database(config)
    assert check.ok, check.message
    away = url.set(database=str(tmp_path / "no" / "folder") if "sqlite" in database_url else "hunter2_away")
    check = database.check_database(configured(tmp_path, database={"url": away.render_as_string(hide_password=False)}))
    assert (check.ok, "verify-db" in check.remedy) == (False, True)
    assert "connection: " in check.message


def test_without_a_database_nothing_is_wrong_and_a_missing_file_is_to_be_created(tmp_path: Path) -> None:
    assert database.check_database(configured(tmp_path)).ok
    check = database.check_database(configured(tmp_path, database={"url": "sqlite:///fleet.db"}))
    assert (check.ok, "supervisor db upgrade" in check.remedy) == (False, True)
    assert not (tmp_path / "fleet.db").exists()


def test_the_password_of_a_database_is_not_told(tmp_path: Path) -> None:
    config = configured(tmp_path, database={"url": "postgresql+psycopg://me:hunter2secret@127.0.0.1:1/fleet"})
    check = database.check_database(config)
    assert not check.ok
    assert "hunter2secret" not in str(check)
