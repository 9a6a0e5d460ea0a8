"""An update-deps that is cut off while pip works: which packages differ then, and that an undo brings them back."""

from __future__ import annotations

import json
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from supervisor_core.cli.host import approvals_of
from supervisor_core.code.recovery import report_interrupted
from supervisor_core.daemon.execution import execute
from supervisor_core.intake.submission import Gateway
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.model import Job
from tests.support.code.code_homes import ANNA, CodeHost, a_code_home, a_code_host
from tests.support.code.repositories import Clones, origin_and_checkout
from tests.support.code.small_pythons import SmallPython, a_small_python
from tests.support.homes import demo_command
from tests.support.waiting import wait_until


class Killed(BaseException):
    """The supervisor is gone."""


class Place:
    """A worker with a Python of its own, where alpha 0.9 is installed and 1.0 required."""

    def __init__(self, host: CodeHost, clones: Clones, python: SmallPython) -> None:
        self.host, self.clones, self.python = host, clones, python

    @property
    def written(self) -> list[Path]:
        folder = self.host.config.state_dir / "packages"
        return list(folder.iterdir()) if folder.is_dir() else []

    def cut_off(self, *installed: str, when: str = "installing") -> str:
        """Kill it when this begins; by then pip has come so far. The id of the command."""
        issued = Gateway(self.host.config, self.host.ledger, approvals_of(self.host.config, self.host.ledger)).submit(
            self.host.command("update-deps"), ANNA, "cli"
        )
        (job,) = self.host.ledger.read(lambda connection: jobs.of_task(connection, issued.task_id))

        def heard(job: Job) -> None:
            if self._job(job.task_id).progress[-1].words.startswith(when):
                raise Killed

        with pytest.raises(Killed):
            execute(job, self.host.host, self.host.ledger, on_progress=heard)
        if installed:
            self.python.has(*installed)
        return issued.task_id

    def told(self) -> tuple[str, dict[str, Any]]:
        """What the next start tells of it."""
        (job,) = report_interrupted(self.host.host, self.host.ledger, ["OrionMX"])
        ended = self._job(job.task_id)
        assert ended.outcome
        assert ended.outcome.error
        return ended.outcome.error, dict(ended.outcome.details)

    def _job(self, task_id: str) -> Job:
        (found,) = self.host.ledger.read(lambda connection: jobs.of_task(connection, task_id))
        return found


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    clones, python = origin_and_checkout(tmp_path), a_small_python(tmp_path / "venv")
    python.has("alpha==0.9")
    clones.comes_in({"requirements.txt": "alpha==1.0\n"})
    code = {"path": str(clones.checkout.folder), "pip_args": ["--index-url", "https://ann:secret@example.org/"]}
    with a_code_host(tmp_path / "host", {"OrionMX": code}) as host:
        host.configure(OrionMX={"python": python.python})
        host.start()
        yield Place(host, clones, python)


def test_an_undo_of_what_was_cut_off_brings_code_and_packages_back(place: Place) -> None:
    before = place.clones.checkout.head
    task_id = place.cut_off("alpha==1.0", "beta==3.0")
    error, details = place.told()
    assert "alpha 0.9 → 1.0, beta 3.0 (added)" in error
    assert details["packages"][0]["python"] == place.python.python
    assert f"To restore it: undo OrionMX {task_id}" in error
    place.host.did(f"undo OrionMX {task_id}")
    assert place.python.packages() == {"alpha==0.9"}
    assert place.clones.checkout.tree() == place.clones.checkout.tree(before)


def test_an_installation_without_new_code_can_be_undone(place: Place) -> None:
    place.clones.checkout.git("pull", "--quiet", "--ff-only")
    place.host.did("update-deps")
    assert place.python.packages() == {"alpha==1.0"}
    place.host.did("undo")
    assert place.python.packages() == {"alpha==0.9"}
    assert "The newest code change is itself an undo" in place.host.do("undo").error


def test_cut_off_before_pip_had_done_anything_nothing_differs(place: Place) -> None:
    place.cut_off()
    error, details = place.told()
    assert "Its packages are unchanged." in error
    assert details["packages"] == []


def test_what_is_written_down_is_private_and_holds_no_password(place: Place) -> None:
    place.cut_off()
    (path,) = place.written
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "secret" not in path.read_text()
    assert json.loads(path.read_text())["environments"][0]["versions"]["alpha"] == "alpha==0.9"


def test_a_pip_that_outlives_its_supervisor_is_waited_for(tmp_path: Path) -> None:
    clones, python = origin_and_checkout(tmp_path), a_small_python(tmp_path / "venv")
    clones.comes_in({"requirements.txt": "slow\nalpha==1.0\n"})
    command = [sys.executable, *demo_command()[1:]]
    worker = {"command": command, "python": python.python, "code": {"path": str(clones.checkout.folder)}}
    with a_code_home(tmp_path / "home", {"OrionMX": worker}) as home:
        daemon = home.start_daemon()
        home.supervisor("send", "update-deps")
        wait_until(lambda: python.reached, 20, "pip is at work")
        daemon.kill()
        daemon.wait()
        daemon = home.start_daemon(wait=False)
        lock = next((home.state_dir / "locks").glob("python_*.lock"))
        wait_until(lambda: str(daemon.pid) in lock.read_text(), 20, "the next one looks at the packages")
        assert home.running_copies("OrionMX") == [], "nobody starts on half of them"
        python.go()
        wait_until(lambda: home.running_copies("OrionMX"), 20, "the worker runs again")
        wait_until(lambda: "alpha 1.0 (added)" in str(home.audit()), 20, "it is told")
