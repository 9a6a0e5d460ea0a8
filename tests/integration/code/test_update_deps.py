"""update-deps with real environments and a real pip: installed with the code, and all put back where that fails."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.code.repositories import Clones, origin_and_checkout
from tests.support.code.venvs import Venv, a_venv, make_wheel, offline
from tests.support.homes import ROOT, Home, a_home, demo_command

pytestmark = pytest.mark.sampled(of_file=2)


class Place:
    """A worker with a checkout and an environment of its own, and a folder of wheels in an index's place."""

    def __init__(self, home: Home, clones: Clones, venv: Venv, wheels: Path) -> None:
        self.home, self.clones, self.venv, self.wheels = home, clones, venv, wheels

    def send(self, text: str) -> dict[str, Any]:
        document: dict[str, Any] = self.home.json("send", text, "--wait", "--timeout", "50")
        return document

    def requires(self, lines: str, **files: str) -> str:
        return self.clones.comes_in({"requirements.txt": lines, **files}, f"Require {lines.strip() or 'nothing'}")

    def pid(self) -> int:
        (pid,) = self.home.running_copies("OrionMX")
        return pid


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with _place(tmp_path) as made:
        yield made


@contextmanager
def _place(folder: Path, script: Path | None = None, **code: Any) -> Iterator[Place]:
    clones, wheels = origin_and_checkout(folder), folder / "wheels"
    wheels.mkdir()
    venv = a_venv(folder / "venv")
    for version in ("1.0", "2.0"):
        make_wheel(wheels, "alpha", version)
    settings = {"path": str(clones.checkout.folder), "pip_args": list(offline(wheels)), **code}
    demo = demo_command()  # {python} -m supervisor_core.demo.worker …
    command = ["{python}", str(script), *demo[3:]] if script else [sys.executable, *demo[1:]]
    worker = {"command": command, "python": str(venv.python), "start_grace_seconds": 0.5, "code": settings}
    worker["env"] = {"PYTHONPATH": str(ROOT)}
    with a_home(folder / "home", {"OrionMX": worker}) as home:
        home.start_daemon()
        yield Place(home, clones, venv, wheels)


def test_what_the_new_code_requires_is_installed_with_it_and_an_undo_takes_it_back(place: Place) -> None:
    old = place.pid()
    before = place.requires("alpha==1.0\n")
    result = place.send("update-deps new parser")
    assert (result["success"], result["error"]) == (True, None)
    assert place.venv.versions()["alpha"] == "1.0"
    assert (place.clones.checkout.head, result["details"]["after"]) == (before, before)
    assert result["details"]["packages"][0]["changed"] == ["alpha 1.0 (added)"]
    assert result["details"]["label"] == "new parser"
    assert place.pid() != old
    place.requires("alpha==2.0\n")
    assert place.send("update-deps")["success"]
    assert place.venv.versions()["alpha"] == "2.0"
    assert place.send("undo")["success"]
    assert place.venv.versions()["alpha"] == "1.0"
    assert place.clones.checkout.tree() == place.clones.checkout.tree(before)


def test_a_pip_that_fails_puts_the_code_back_and_the_worker_runs(place: Place) -> None:
    before, old = place.clones.checkout.head, place.pid()
    place.requires("alpha==1.0\nnowhere-to-be-had\n")
    result = place.send("update-deps")
    assert not result["success"]
    assert "nowhere-to-be-had" in result["error"]
    assert f"Restored the code of OrionMX to {before[:7]}" in result["error"]
    assert "All packages are restored" in result["error"]
    assert (place.clones.checkout.head, place.clones.checkout.status()) == (before, "")
    assert "alpha" not in place.venv.versions()
    assert place.pid() != old


def test_a_worker_that_does_not_live_with_the_new_packages_has_the_old_ones_again(tmp_path: Path) -> None:
    """It dies of what was installed, not of the code: both go back, and it runs."""
    script = tmp_path / "run.py"
    script.write_text("import alpha, runpy\nrunpy.run_module('supervisor_core.demo.worker', run_name='__main__')\n")
    with _place(tmp_path, script=script) as place:
        place.venv.put(place.wheels / "alpha-1.0-py3-none-any.whl")
        assert place.send("restart")["success"]
        before, old = place.clones.checkout.head, place.pid()
        broken = make_wheel(place.wheels, "alpha", "3.0", module_text="raise SystemExit('alpha 3 is broken')\n")
        assert broken.exists()
        place.requires("alpha==3.0\n")
        result = place.send("update-deps")
        assert not result["success"]
        assert "alpha 3 is broken" in result["error"], "its last words"
        assert "All packages are restored" in result["error"]
        assert (place.venv.versions()["alpha"], place.clones.checkout.head) == ("1.0", before)
        assert place.pid() != old


def test_a_python_without_pip_is_known_before_anybody_is_stopped(place: Place) -> None:
    place.venv.take("pip")
    place.requires("alpha==1.0\n")
    before, old = place.clones.checkout.head, place.pid()
    result = place.send("update-deps")
    assert not result["success"]
    assert "pip" in result["error"]
    assert (place.clones.checkout.head, place.pid()) == (before, old)
