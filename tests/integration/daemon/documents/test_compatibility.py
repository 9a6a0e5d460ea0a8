"""The functions of the requirement documents, called as those documents call them."""

from __future__ import annotations

import inspect
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from supervisor_core import compatibility
from supervisor_core.config.load import load_supervisor_config
from supervisor_core.daemon.environment import opened_ledger
from supervisor_core.daemon.ownership import daemon_ownership
from supervisor_core.storage.store import Ledger
from supervisor_core.workers.context import HostContext, open_doors
from tests.support.daemon.daemon_homes import SLEEPER
from tests.support.homes import a_home

WORKER = "OrionMX"
TASK = {"task_id": "t1", "label": "by hand", "params": {}}

SIGNATURES = {
    "pause_watcher": ["nas", "db", "worker_id", "task"],
    "resume_watcher": ["nas", "db", "worker_id", "task"],
    "update_code": ["nas", "db", "worker_id", "task"],
    "update_code_deps": ["nas", "db", "worker_id", "task"],
    "restart_watcher": ["nas", "db", "worker_id", "task"],
    "rollback_code": ["task", "nas", "db", "worker_id"],
    "generate_diagnostics": ["nas", "db", "worker_id", "task"],
    "verify_database": ["nas", "db", "worker_id", "task"],
    "check_watcher_process": ["worker_id"],
    "is_watcher_healthy": ["heartbeat"],
    "is_watcher_paused": ["nas", "worker_id"],
    "read_heartbeat_file": ["path"],
    "stop_watcher_gracefully": ["worker_id", "timeout_seconds"],
    "start_watcher": ["worker_id", "config_path"],
    "get_heartbeat_age_seconds": ["heartbeat_file"],
    "run_command": ["cmd", "cwd", "timeout_seconds"],
    "check_control_flags": ["inbox_path", "nas", "worker_id", "db"],
    "write_supervisor_heartbeat_file": ["nas", "worker_id", "success", "error", "actions_taken"],
    "report_supervisor_heartbeat_to_database": [
        "db",
        "worker_id",
        "success",
        "error",
        "actions_taken",
        "watcher_state",
    ],
    "read_watcher_heartbeat": ["nas", "worker_id"],
    "validate_supervisor_environment": ["nas", "worker_id"],
    "undo_code": ["nas", "db", "worker_id", "task"],
    "diagnostics": ["nas", "db", "worker_id", "task"],
    "verify_db": ["nas", "db", "worker_id", "task"],
    "validate_label": ["label"],
    "load_supervisor_config": ["config_path"],
    "Supervisor": ["config_path", "worker_id"],
    "main": ["args"],
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_the_arguments_have_the_names_and_the_order_of_the_document(name: str) -> None:
    parameters = list(inspect.signature(getattr(compatibility, name)).parameters)
    assert parameters[: len(SIGNATURES[name])] == SIGNATURES[name]


def test_every_function_is_compared_with_the_document() -> None:
    assert set(compatibility.__all__) - {"NasManager", "Database"} == set(SIGNATURES)


@pytest.fixture
def config_path(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "nas").mkdir()
    path = tmp_path / "config.yaml"
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    document = {
        "supervisor": {"id": "TestHost", "state_dir": "var"},
        "nas": {"root": "nas", "layout": "cornerstone"},
        "workers": {WORKER: {"command": command, "start_grace_seconds": 0.1, "heartbeat_max_age_seconds": 0}},
    }
    path.write_text(yaml.safe_dump(document))
    yield path
    compatibility.stop_watcher_gracefully(WORKER, 5, path)


@pytest.fixture
def nas(config_path: Path) -> HostContext:
    return open_doors(load_supervisor_config(config_path))


@pytest.fixture
def db(nas: HostContext) -> Iterator[Ledger]:
    with opened_ledger(nas.config) as ledger:
        yield ledger


def audited(db: Ledger) -> list[tuple[Any, ...]]:
    query = "SELECT action, outcome, task_id FROM audit_log_t ORDER BY audit_id"
    return [tuple(row) for row in db.read(lambda connection: connection.exec_driver_sql(query).all())]


def test_a_worker_is_started_found_and_stopped(config_path: Path) -> None:
    assert not compatibility.check_watcher_process(WORKER, config_path)
    assert compatibility.start_watcher(WORKER, str(config_path))
    assert compatibility.check_watcher_process(WORKER, config_path)
    assert compatibility.stop_watcher_gracefully(WORKER, 5, config_path)
    assert not compatibility.check_watcher_process(WORKER, config_path)


def test_a_handler_is_audited_and_runs_once_for_its_task_id(nas: HostContext, db: Ledger) -> None:
    first = compatibility.pause_watcher(nas, db, WORKER, TASK)
    assert (first["success"], first["error"]) == (True, None)
    assert compatibility.is_watcher_paused(nas, WORKER)
    nas.pauses.set(WORKER, None)
    assert compatibility.pause_watcher(nas, db, WORKER, TASK) == first
    assert not compatibility.is_watcher_paused(nas, WORKER), "the same task isn't carried out again"
    assert audited(db) == [("PAUSE", "success", "t1")]


def test_the_task_of_a_rollback_comes_first(nas: HostContext, db: Ledger) -> None:
    result = compatibility.rollback_code({"params": {"commits_back": 11}}, nas, db, WORKER)
    assert not result["success"]
    assert "commits_back" in result["error"]


@pytest.mark.parametrize(
    ("function", "order"),
    [
        (compatibility.rollback_code, "(task, nas, db, worker_id)"),
        (compatibility.pause_watcher, "(nas, db, worker_id, task)"),
    ],
)
def test_arguments_in_the_wrong_order_are_refused_with_the_right_one(
    nas: HostContext, db: Ledger, function: Callable[..., object], order: str
) -> None:
    task: dict[str, object] = {"task_id": "t1"}
    wrong = (nas, db, WORKER, task) if function is compatibility.rollback_code else (task, nas, db, WORKER)
    with pytest.raises(TypeError, match=re.escape(order)):
        function(*wrong)
    assert audited(db) == []


def test_beside_a_daemon_that_does_not_listen_yet_nothing_is_done(nas: HostContext, db: Ledger) -> None:
    with daemon_ownership(nas.config.state_dir):
        result = compatibility.pause_watcher(nas, db, WORKER, TASK)
    assert not result["success"]
    assert not compatibility.is_watcher_paused(nas, WORKER)


def test_one_task_for_two_workers_runs_on_each(nas: HostContext, config_path: Path) -> None:
    document = yaml.safe_load(config_path.read_text())
    document["workers"]["Second"] = document["workers"][WORKER]
    config_path.write_text(yaml.safe_dump(document))
    both = compatibility.NasManager(config_path)
    for worker_id in (WORKER, "Second"):
        result = compatibility.pause_watcher(both, None, worker_id, TASK)
        assert (result["success"], result["worker_id"]) == (True, worker_id)
    assert compatibility.is_watcher_paused(nas, "Second")


@pytest.mark.parametrize("task_id", ["../x", "x" * 200, "task_20260205_143015_0123456ab"])
def test_an_id_that_no_result_file_can_have_is_refused(nas: HostContext, db: Ledger, task_id: str) -> None:
    result = compatibility.pause_watcher(nas, db, WORKER, {"task_id": task_id})
    assert "ommand id" in str(result["error"])
    assert not compatibility.is_watcher_paused(nas, WORKER)


def test_beside_a_daemon_the_daemon_carries_it_out(tmp_path: Path) -> None:
    with a_home(tmp_path / "home", {WORKER: SLEEPER}, slack={"approvals": {"required_for": ["restart"]}}) as home:
        home.start_daemon()
        nas = compatibility.NasManager(home.folder / "config.yaml")
        result = compatibility.pause_watcher(nas, None, WORKER, TASK)
        assert (result["success"], result["error"], result["message"]) == (True, None, f"{WORKER} is paused")
        assert compatibility.pause_watcher(nas, None, WORKER, TASK) == result, "the first result"
        [row] = home.audit("t1")
        assert (row["action"], row["outcome"]) == ("PAUSE", "success")
        assert compatibility.is_watcher_paused(nas, WORKER)
        failed = compatibility.undo_code(nas, None, WORKER, {})
        assert not failed["success"]
        assert failed["error"]


class TheirManager:
    """A drive as another program knows it."""

    def __init__(self, root: Path) -> None:
        self.nas_root = root


def test_another_programs_drive_and_database_do(
    nas: HostContext, config_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUPERVISOR_CONFIG", str(config_path))
    theirs = TheirManager(nas.config.drive_root)
    result = compatibility.pause_watcher(theirs, object(), WORKER, TASK)
    assert (result["success"], result["error"]) == (True, None)
    assert compatibility.is_watcher_paused(theirs, WORKER)
    given = compatibility.NasManager({"nas": {"root": str(nas.config.drive_root)}})
    assert compatibility.is_watcher_paused(given, WORKER)
    compatibility.report_supervisor_heartbeat_to_database(object(), WORKER, True)
    with opened_ledger(nas.config) as ledger:
        assert audited(ledger) == [("PAUSE", "success", "t1")]


@pytest.mark.parametrize("root", ["elsewhere", ""])
def test_the_drive_of_another_configuration_is_refused(
    config_path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, root: str
) -> None:
    monkeypatch.setenv("SUPERVISOR_CONFIG", str(config_path))
    theirs = TheirManager(tmp_path / root) if root else object()
    result = compatibility.pause_watcher(theirs, object(), WORKER, TASK)
    assert not result["success"]
    assert "Set SUPERVISOR_CONFIG" in result["error"]
    assert not (config_path.parent / "nas" / "00_STATE").exists()


def test_a_configuration_is_a_dictionary_without_secrets(config_path: Path) -> None:
    text = config_path.read_text()
    config_path.write_text(f"{text}inbox: {{secret: a-long-secret}}\n")
    config = compatibility.load_supervisor_config(config_path)
    assert (config["supervisor"]["id"], list(config["workers"])) == ("TestHost", [WORKER])
    assert json.loads(json.dumps(config))["inbox"]["secret"] != "a-long-secret"
    assert compatibility.NasManager(config_path).get_worker_outbox_path().name == "Worker_Outbox"
    assert compatibility.NasManager(config).get_logs_path().name == "05_LOGS"


def test_a_label_is_checked() -> None:
    assert compatibility.validate_label("impl HT acquire") == (True, "")
    assert compatibility.validate_label("x" * 101)[0] is False


def test_flags_are_carried_out(nas: HostContext, db: Ledger) -> None:
    inbox = nas.inbox.folder
    inbox.mkdir()
    (inbox / f"supervisor_pause_{WORKER}_t2.flag").write_text(json.dumps({"task_id": "t2", "handler": "pause"}))
    assert compatibility.check_control_flags(inbox, nas, WORKER, db) == ["pause"]
    assert compatibility.is_watcher_paused(nas, WORKER)
    with pytest.raises(ValueError, match="inbox"):
        compatibility.check_control_flags(inbox / "other", nas, WORKER, db)


def test_the_supervisor_reports_its_heartbeat(nas: HostContext, db: Ledger) -> None:
    path = compatibility.write_supervisor_heartbeat_file(nas, WORKER, False, "it broke", ["pause"])
    said = json.loads(path.read_text())
    assert (said["success"], said["error"], said["actions"]) == (False, "it broke", ["pause"])
    compatibility.report_supervisor_heartbeat_to_database(db, WORKER, True, watcher_state="running")
    query = "SELECT worker_id, status_summary FROM workers_t"
    (row,) = db.read(lambda connection: connection.exec_driver_sql(query).all())
    assert row[0] == f"supervisor_{WORKER}"
    assert "running" in row[1]


def test_heartbeats_are_read(nas: HostContext, tmp_path: Path) -> None:
    assert compatibility.read_watcher_heartbeat(nas, WORKER) == {}
    assert compatibility.read_heartbeat_file(tmp_path / "none.json") == {}
    assert compatibility.get_heartbeat_age_seconds(tmp_path / "none.json") == math.inf
    assert not compatibility.is_watcher_healthy({})


def test_a_command_is_run(tmp_path: Path) -> None:
    words = [sys.executable, "-c", "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"]
    done = compatibility.run_command(words, tmp_path, 30)
    assert (done["returncode"], done["stdout"].strip(), done["stderr"].strip()) == (3, "out", "err")


def test_the_environment_is_validated(nas: HostContext) -> None:
    assert compatibility.validate_supervisor_environment(nas, WORKER) == {"valid": True, "issues": []}


def test_paths_may_be_relative_or_text(
    nas: HostContext, db: Ledger, config_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(config_path.parent / "nas")
    state = Path("00_STATE")
    state.mkdir()
    path = state / f"watcher_heartbeat_{WORKER}.json"
    path.write_text('{"status": "healthy"}')
    for given in (path, str(path), str(path.absolute())):
        assert compatibility.read_heartbeat_file(given) == {"status": "healthy"}
        assert 0 <= compatibility.get_heartbeat_age_seconds(given) < 60
    nas.inbox.folder.mkdir()
    for given in ("Worker_Inbox", Path("Worker_Inbox"), str(nas.inbox.folder)):
        assert compatibility.check_control_flags(given, nas, WORKER, db) == []


def test_a_command_always_returns_a_dictionary(tmp_path: Path) -> None:
    missing = compatibility.run_command(["no-such-program"], str(tmp_path))
    assert (missing["returncode"], missing["stdout"], "no-such-program" in missing["stderr"]) == (127, "", True)
    assert compatibility.run_command([sys.executable, "-V"], tmp_path / "no folder")["returncode"] != 0
    assert (
        compatibility.run_command([sys.executable, "-c", "import time; time.sleep(9)"], None, 0.2)["returncode"] == 124
    )


def test_the_database_of_a_configuration_is_its_own(
    config_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the current folder has another configuration."""
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "nas").mkdir(parents=True)
    (elsewhere / "config.yaml").write_text(config_path.read_text().replace("TestHost", "OtherHost"))
    monkeypatch.chdir(elsewhere)
    config = compatibility.load_supervisor_config(config_path)
    compatibility.report_supervisor_heartbeat_to_database(compatibility.Database(config["database"]), WORKER, True)
    assert not (elsewhere / "var").exists()
    query = "SELECT worker_id FROM workers_t"
    with opened_ledger(load_supervisor_config(config_path)) as ledger:
        assert ledger.read(lambda connection: connection.exec_driver_sql(query).scalars().all()) == [
            f"supervisor_{WORKER}"
        ]


LAUNCHER = Path(__file__).parents[4] / "supervisor.py"


def launched(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the script of the document in this folder."""
    environ = {name: value for name, value in os.environ.items() if name != "SUPERVISOR_CONFIG"}
    words = [sys.executable, str(LAUNCHER), *options]
    return subprocess.run(words, cwd=folder, env=environ, capture_output=True, text=True, timeout=60, check=False)


def test_the_script_at_the_top_runs_a_pass_and_exits_with_0_or_1(config_path: Path) -> None:
    folder = config_path.parent
    dev = config_path.rename(folder / "config.dev.yaml")
    assert launched(folder, "--worker-id", WORKER, "--config", "config.dev.yaml").returncode == 1, "it doesn't run"
    assert {path.name for path in (folder / "nas").iterdir() if path.name[:1] == "0"} == {
        "00_STATE",
        "01_RAW",
        "02_WORK",
        "03_REFERENCE",
        "04_PUBLISH",
        "05_LOGS",
    }
    assert compatibility.start_watcher(WORKER, dev)
    assert launched(folder).returncode == 0, "OrionMX and config.dev.yaml are the defaults"
    assert compatibility.stop_watcher_gracefully(WORKER, 5, dev)
    for wrong in (["--worker-id", "Nobody"], ["--nonsense"], ["--config", "none.yaml"]):
        done = launched(folder, *wrong)
        assert (done.returncode, done.stderr.strip() != "") == (1, True), done.stderr
    assert launched(folder, "--help").returncode == 0
    dev.rename(config_path)
