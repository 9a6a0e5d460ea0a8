"""The packages of a worker's Python, with real environments and a real pip that has no index."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from supervisor_core.code.packages import Packages, PackagesError, differences
from tests.support.code.venvs import Venv, a_venv, make_source, make_wheel, offline, pip_free
from tests.support.waiting import wait_until

pytestmark = pytest.mark.sampled(of_file=6)

INSTALLING = 60.0
"""Seconds; what these tests install takes less than one."""


@dataclass(frozen=True)
class Place:
    """A checkout, an environment, and a folder of wheels."""

    checkout: Path
    wheels: Path
    venv: Venv

    def packages(
        self,
        pip_args: Sequence[str] | None = None,
        environ: Mapping[str, str] | None = None,
        *,
        requirements: str = "requirements.txt",
        timeout: float = INSTALLING,
    ) -> Packages:
        args = offline(self.wheels) if pip_args is None else pip_args
        variables = {**pip_free(), **(environ or {})}
        return Packages(self.venv.python, self.checkout, args, variables, requirements=requirements, timeout=timeout)

    def install(self, packages: Packages, *requirements: str) -> None:
        (self.checkout / "requirements.txt").write_text("".join(f"{line}\n" for line in requirements))
        packages.install()

    def has(self, name: str, version: str, requires: Sequence[str] = ()) -> None:
        self.venv.put(make_wheel(self.wheels, name, version, requires))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """One with alpha 1.0 in it, and alpha 2.0 to be had."""
    place = Place(tmp_path / "checkout", tmp_path / "wheels", a_venv(tmp_path / "venv"))
    place.checkout.mkdir()
    place.has("alpha", "1.0")
    make_wheel(place.wheels, "alpha", "2.0")
    return place


def test_an_installation_brings_a_version_up_and_it_is_told_what_became_of_what(place: Place) -> None:
    packages = place.packages()
    before = packages.versions()
    assert before["alpha"] == "alpha==1.0"
    assert "pip" in before
    place.install(packages, "alpha>=2")
    assert place.venv.run("import alpha; print(alpha.VERSION)") == "2.0"
    (difference,) = differences(before, packages.versions())
    assert str(difference) == "alpha 1.0 → 2.0"


def test_a_package_that_is_not_to_be_had_changes_nothing(place: Place) -> None:
    packages = place.packages()
    with pytest.raises(PackagesError, match=r"^`pip install` failed: .*No matching distribution found for missing"):
        place.install(packages, "alpha>=2", "missing==3")
    assert place.venv.versions() == {"alpha": "1.0"}


def test_one_that_can_not_be_built_is_told_with_the_last_words_of_its_build(place: Place) -> None:
    make_source(place.wheels, "unbuilt", "1.0")
    with pytest.raises(PackagesError, match="RuntimeError: nothing can be built of this") as caught:
        place.install(place.packages(), "alpha>=2", "unbuilt")
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 700
    assert place.venv.versions() == {"alpha": "1.0"}


def test_nothing_in_the_checkout_is_run_in_place_of_pip_or_what_pip_imports(place: Place, tmp_path: Path) -> None:
    for name in ("pip.py", "typing.py", "runpy.py"):
        (place.checkout / name).write_text(
            f"open({str(tmp_path / 'was-run')!r}, 'w'); raise SystemExit('{name} was run out of the checkout')\n"
        )
    wheel = make_wheel(place.checkout / "wheels", "beta", "1.0")
    packages = place.packages()
    before = packages.versions()
    place.install(packages, "alpha>=2", f"./wheels/{wheel.name}")
    assert place.venv.versions() == {"alpha": "2.0", "beta": "1.0"}
    assert packages.restore(before) == ""
    assert not (tmp_path / "was-run").exists()


@contextmanager
def silent_index() -> Iterator[tuple[str, threading.Event, threading.Event]]:
    """An index that takes a connection and never answers: its address, whether pip came, and whether it is gone."""
    came, gone = threading.Event(), threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def listen() -> None:
            connection, _ = server.accept()
            with connection:
                while connection.recv(65536):
                    came.set()
                gone.set()

        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}", came, gone
        thread.join(10)


def test_pip_that_waits_for_an_index_for_ever_is_ended_and_all_is_as_it_was(place: Place) -> None:
    with silent_index() as (address, came, gone):
        login = ["--index-url", f"http://deploy:s3cr3t-w0rd@{address}/simple/"]
        packages = place.packages(login, timeout=6)
        before = packages.versions()
        with pytest.raises(PackagesError, match=r"^`pip install` timed out after 6 s") as caught:
            place.install(packages, "alpha>=2")
        assert came.is_set()
        assert gone.wait(10), "the connection ended with pip"
        assert "s3cr3t" not in str(caught.value)
        assert packages.restore(before) == ""
    assert place.venv.versions() == {"alpha": "1.0"}


HANGING = """
import os, pathlib, subprocess, sys, time
deaf = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(99)"
child = subprocess.Popen([sys.executable, "-c", deaf])
pathlib.Path({pids!r}).write_text(f"{{os.getppid()}} {{os.getpid()}} {{child.pid}}")
time.sleep(99)
"""


def test_a_build_that_hangs_is_ended_with_everything_that_it_started_and_leaves_no_files(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids, temporary = tmp_path / "pids", tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    make_source(place.wheels, "hanging", "1.0", HANGING.format(pids=str(pids)))
    with pytest.raises(PackagesError, match="timed out after 6 s"):
        place.install(place.packages(timeout=6), "alpha>=2", "hanging")
    family = [int(pid) for pid in pids.read_text().split()]
    assert len(family) == 3
    wait_until(lambda: not any(map(alive, family)), 10, "pip, its build and what that started are gone")
    assert list(temporary.iterdir()) == []


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_what_an_installation_breaks_is_told_from_what_was_broken(place: Place) -> None:
    place.has("needy", "1.0", ["alpha<2"])
    place.has("lame", "1.0", ["absent"])
    place.has("picky", "1.0", ["alpha<1"])
    packages = place.packages()
    before = packages.problems()
    assert len(before) == 2
    assert packages.new_problems(before) == []
    place.install(packages, "alpha>=2")
    (problem,) = packages.new_problems(before)
    assert problem == "needy 1.0 has requirement alpha<2, but you have alpha 2.0."


def test_restoring_brings_back_what_was_changed_what_is_gone_and_takes_what_is_new(place: Place) -> None:
    place.has("gone", "1.5", ["alpha"])
    place.has("same", "1.0")
    packages = place.packages()
    before = packages.versions()
    make_wheel(place.wheels, "fresh", "1.0")
    place.install(packages, "alpha>=2", "fresh")
    place.venv.take("gone")
    assert place.venv.versions() == {"alpha": "2.0", "fresh": "1.0", "same": "1.0"}

    changed = list(map(str, differences(before, packages.versions())))
    assert changed == ["alpha 1.0 → 2.0", "fresh 1.0 (added)", "gone 1.5 (removed)"]
    assert packages.restore(before) == ""
    assert place.venv.versions() == {"alpha": "1.0", "gone": "1.5", "same": "1.0"}
    assert place.venv.run("import alpha, gone; print(alpha.VERSION, gone.VERSION)") == "1.0 1.5"
    assert packages.versions() == before


def test_what_can_not_be_put_back_is_named_and_keeps_nothing_else_from_it(place: Place) -> None:
    place.has("beta", "1.0")
    packages = place.packages()
    before = packages.versions()
    make_wheel(place.wheels, "beta", "2.0")
    place.install(packages, "alpha>=2", "beta>=2")
    (place.wheels / "alpha-1.0-py3-none-any.whl").unlink()

    left = packages.restore(before)
    assert left.startswith("Not restored: alpha is 2.0, was 1.0. `pip install` failed: ")
    assert "No matching distribution found for alpha==1.0" in left
    assert place.venv.versions() == {"alpha": "2.0", "beta": "1.0"}


def test_one_from_a_folder_is_not_tried_and_one_from_an_archive_with_its_hash_is(place: Place, tmp_path: Path) -> None:
    archive = make_wheel(tmp_path / "elsewhere", "archived", "1.0")
    packages = place.packages()
    place.install(packages, f"archived @ {archive.as_uri()}")
    folder = tmp_path / "edited"
    place.has("edited", "1.0")
    origin = f'{{"url": "{folder.as_uri()}", "dir_info": {{"editable": true}}}}'
    (place.venv.site / "edited-1.0.dist-info" / "direct_url.json").write_text(origin)
    before = packages.versions()
    assert before["edited"] == f"-e {folder}"
    assert before["archived"].startswith(f"archived @ {archive.as_uri()}#sha256=")

    for each in ("edited", "archived"):
        place.venv.take(each)
    place.install(packages, "alpha>=2")
    assert packages.restore(before) == f"Not restored: edited is missing, was -e {folder}."
    assert place.venv.versions() == {"alpha": "1.0", "archived": "1.0"}


def test_an_installation_that_lost_pip_is_put_back_and_nothing_in_the_checkout_is_run(
    place: Place, tmp_path: Path
) -> None:
    packages = place.packages()
    before = packages.versions()
    for each in place.venv.site.glob("pip*"):
        shutil.rmtree(each)
    place.venv.put(make_wheel(place.wheels, "fresh", "1.0"))
    for name in ("ensurepip.py", "typing.py"):
        (place.checkout / name).write_text(f"open({str(tmp_path / 'was-run')!r}, 'w'); raise SystemExit('no')\n")
    assert packages.restore(before) == ""
    assert packages.versions() == before
    assert not (tmp_path / "was-run").exists()


def test_no_login_is_told_wherever_pip_has_it_from(place: Place) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]  # nobody listens there any more
    address = f"http://deploy:s3cr3t-w0rd@127.0.0.1:{port}"
    packages = place.packages(
        ["--retries", "0", "--find-links", f"{address}/links"], {"PIP_INDEX_URL": f"{address}/simple/"}
    )
    archive = f"http://t0k3n-of-ours@127.0.0.1:{port}/other-1.0.tar.gz?signature=s1gned"
    for requirement in (f"other @ {archive}", f"-e {archive}"):
        with pytest.raises(PackagesError, match="failed: ") as caught:
            place.install(packages, requirement)
        assert not any(secret in str(caught.value) for secret in ("s3cr3t", "t0k3n", "s1gned", "deploy"))


def test_what_the_host_tells_pip_of_its_index_counts_and_not_what_leads_it_elsewhere(
    place: Place, tmp_path: Path
) -> None:
    host = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(place.wheels), "PIP_TARGET": str(tmp_path / "target")}
    host |= {"PIP_DRY_RUN": "1", "PIP_NO_INPUT": "0", "PYTHONPATH": str(tmp_path)}
    packages = place.packages([], host)
    place.install(packages, "alpha>=2")
    assert place.venv.versions() == {"alpha": "2.0"}


def test_a_python_without_pip_is_told_how_to_get_one(place: Place) -> None:
    shutil.rmtree(place.venv.site / "pip")
    with pytest.raises(PackagesError, match=r"has no pip\. Run `.*python -m ensurepip`"):
        place.packages().versions()


def test_a_python_that_is_none_or_is_not_there_is_told(place: Place, tmp_path: Path) -> None:
    missing = Packages(str(tmp_path / "python"), place.checkout)
    with pytest.raises(PackagesError, match=r"python isn't installed\. Set workers\.ID\.python to the worker's own"):
        missing.versions()
    with pytest.raises(PackagesError, match="doesn't behave like a Python with pip"):
        Packages("true", place.checkout).versions()
    with pytest.raises(PackagesError, match=r"no such folder\. Fix workers\.ID\.code\.path"):
        Packages(place.venv.python, tmp_path / "nowhere").versions()


def test_requirements_that_are_missing_or_lie_outside_of_the_checkout_are_refused(place: Place) -> None:
    packages = place.packages()
    with pytest.raises(PackagesError, match=r"checkout has no file requirements\.txt\. Fix workers\.ID"):
        packages.install()
    (place.checkout.parent / "outside.txt").write_text("alpha>=2\n")
    for name in ("../outside.txt", str(place.checkout.parent / "outside.txt")):
        with pytest.raises(PackagesError, match="is outside the checkout"):
            place.packages(requirements=name).install()
    assert place.venv.versions() == {"alpha": "1.0"}


def test_the_python_of_a_system_is_left_alone_until_it_is_said_otherwise(place: Place) -> None:
    """The marker counts only where Python is not in a virtual environment, so this one denies that it is."""
    (place.venv.site / "sitecustomize.py").write_text("import sys\nsys.base_prefix = sys.prefix\n")
    marker = place.venv.site.parent / "EXTERNALLY-MANAGED"
    marker.write_text("[externally-managed]\nError=Use the packages of the system.\n")
    packages = place.packages()
    before = packages.versions()
    with pytest.raises(PackagesError, match=r"is managed by the system.*pip_args: \[--break-system-packages\]"):
        place.install(packages, "alpha>=2")
    make_wheel(place.wheels, "fresh", "1.0")
    allowed = place.packages([*offline(place.wheels), "--break-system-packages"])
    place.install(allowed, "alpha>=2", "fresh")
    assert place.venv.versions() == {"alpha": "2.0", "fresh": "1.0"}
    assert allowed.restore(before) == ""
    assert os.listdir(place.checkout) == ["requirements.txt"]
