"""`supervisor stop`: end the daemon, and come back when it is gone. Its workers go on, unless they are to end first."""

from __future__ import annotations

import argparse

from supervisor_core.config import SupervisorConfig, load_supervisor_config
from supervisor_core.domain.errors import SupervisorError
from supervisor_core.runtime.stopping_daemon import Door, Ended, stop_daemon

NONE_RAN = "stopped: no daemon was running"


def configure(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    parser.add_argument("--workers", action="store_true", help="end the workers first")


def run(options: argparse.Namespace) -> int:
    """End it, and look again."""
    config = load_supervisor_config(options.config)
    ended = stop_daemon(Door(config.state_dir), workers=options.workers) if config.state_dir.is_dir() else None
    stuck = _end_workers(config) if options.workers and config.state_dir.is_dir() else []
    workers = (
        "" if not options.workers else "not all of its workers could be ended" if stuck else "its workers were ended"
    )
    print(in_words(ended, workers))
    for words in stuck:
        print(f"  {words}")
    return 1 if stuck else 0


def in_words(ended: Ended | None, of_workers: str = "") -> str:
    """What became of the daemon, and of its workers where that is known already."""
    if ended is None:
        return NONE_RAN
    why = "did not end when asked" if ended.answer else "did not answer"
    how = "" if ended.how == "asked" else f", {ended.how} because it {why}"
    if of_workers:
        return f"stopped: pid {ended.pid}{how}; {of_workers}"
    workers = ", ".join(ended.answer.get("workers", [])) or ("not known" if not ended.answer else "none was running")
    return f"stopped: pid {ended.pid}{how}; workers that go on: {workers}"


def _end_workers(config: SupervisorConfig) -> list[str]:
    """End every worker that runs, as the pass for each; what could not be ended, in words."""
    from supervisor_core.adapters.worker import end_watcher
    from supervisor_core.runtime.doors import open_doors
    from supervisor_core.runtime.ownership import pass_ownership

    host, stuck = open_doors(config), []
    for worker in config.workers.values():
        try:
            with pass_ownership(config.state_dir, worker.id):
                ended = end_watcher(host.processes, host.drive, config, worker, "supervisor stop --workers")
        except (SupervisorError, OSError) as error:  # nobody can tell whether it runs: the others end
            stuck.append(f"{worker.id} could not be ended: {error}")
            continue
        if not ended.report.stopped:
            stuck.append(f"{worker.id} is stuck: {', '.join(map(str, ended.report.survivors))} could not be ended")
        elif ended.left:
            stuck.append(f"{worker.id} may still run. {ended.words(worker)}")
    return stuck
