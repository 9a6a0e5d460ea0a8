"""An operator's script, as it was written for the archive's own supervisor. Only its imports have changed."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from supervisor_core.compatibility import (
    Database,
    NasManager,
    Supervisor,
    check_control_flags,
    check_watcher_process,
    generate_diagnostics,
    get_heartbeat_age_seconds,
    is_watcher_healthy,
    is_watcher_paused,
    load_supervisor_config,
    pause_watcher,
    read_heartbeat_file,
    read_watcher_heartbeat,
    report_supervisor_heartbeat_to_database,
    restart_watcher,
    resume_watcher,
    rollback_code,
    run_command,
    start_watcher,
    stop_watcher_gracefully,
    undo_code,
    update_code,
    update_code_deps,
    validate_label,
    validate_supervisor_environment,
    verify_database,
    write_supervisor_heartbeat_file,
)

WORKER = "OrionMX"


def task(number: int, **params: Any) -> dict[str, Any]:
    return {"task_id": f"task_20260205_{number:03}", "handler": "", "label": "AA v1-2", "params": params}


def main(arguments: Sequence[str]) -> int:
    config = load_supervisor_config("config.dev.yaml")
    nas = NasManager(config)
    db = Database(config["database"])
    said: dict[str, Any] = {"root": str(nas.nas_root), "configured": config["nas"]["root"]}

    said["environment"] = validate_supervisor_environment(nas, WORKER)
    said["started"] = start_watcher(WORKER, "config.dev.yaml")
    said["runs"] = check_watcher_process(WORKER)

    said["pause"] = pause_watcher(nas, db, WORKER, task(1))
    said["paused"] = is_watcher_paused(nas, WORKER)
    said["restart"] = restart_watcher(nas, db, WORKER, task(2))
    said["resume"] = resume_watcher(nas, db, WORKER, task(3))
    said["update"] = update_code(nas, db, WORKER, task(4))
    said["update_deps"] = update_code_deps(nas, db, WORKER, task(5))
    said["rollback"] = rollback_code(task(6, commits_back=2), nas, db, WORKER)
    said["rollback_again"] = rollback_code(task(6, commits_back=2), nas, db, WORKER)
    said["undo"] = undo_code(nas, db, WORKER, task(7))
    said["too_many"] = rollback_code(task(8, commits_back=11), nas, db, WORKER)
    said["diagnostics"] = generate_diagnostics(nas, db, WORKER, task(9))
    said["verify"] = verify_database(nas, db, WORKER, task(10))

    flag = nas.get_worker_inbox_path() / f"supervisor_restart_watcher_{WORKER}.flag"
    flag.write_text(json.dumps(task(11) | {"handler": "restart_watcher"}))
    said["actions"] = check_control_flags(nas.get_worker_inbox_path(), nas, WORKER, db)
    said["flag_left"] = flag.exists()

    heartbeat_path = nas.get_state_path() / f"watcher_heartbeat_{WORKER}.json"
    said["heartbeat"] = read_watcher_heartbeat(nas, WORKER)
    # The worker writes on: two reads are equal unless it does that between them.
    said["same"] = any(read_heartbeat_file(heartbeat_path) == read_watcher_heartbeat(nas, WORKER) for _ in range(5))
    said["age"] = get_heartbeat_age_seconds(heartbeat_path)
    said["healthy"] = is_watcher_healthy(said["heartbeat"])
    written = write_supervisor_heartbeat_file(nas, WORKER, True, actions_taken=["pause"])
    said["written"] = json.loads(Path(written).read_text())
    report_supervisor_heartbeat_to_database(db, WORKER, True, None, ["pause"], "running")

    said["labels"] = [validate_label("impl HT acquire"), validate_label("x" * 101)[0], validate_label("a/b")[0]]
    said["command"] = run_command([sys.executable, "-c", "print('hello')"], cwd=Path.cwd(), timeout_seconds=30)

    supervisor = Supervisor("config.dev.yaml", WORKER)
    said["health"] = supervisor.check_watcher_health()
    supervisor.report_heartbeat_to_database()
    supervisor.write_heartbeat_file()
    said["pass"] = supervisor.run_once()
    said["stopped"] = stop_watcher_gracefully(WORKER, timeout_seconds=10)

    Path(arguments[0]).write_text(json.dumps(said))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
