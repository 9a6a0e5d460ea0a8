"""`supervisor demo`: everything up with one command, a tour that checks itself, and nothing left behind."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bot.demo.scenes import FLEET_SCENES, SCENES
from bot.demo.stage import set_up
from bot.demo.tour import Scene, Tour
from slack_playground.blockkit import check_message
from supervisor_core.host.process_facts.facts import ProcessIdentity
from supervisor_core.host.process_facts.identity import state
from tests.support.homes import ROOT, SUPERVISOR
from tests.support.waiting import wait_until

PATIENCE = 180.0
"""A tour takes 50 s on an idle machine."""

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="what ends a demo is a signal here"),
    pytest.mark.timeout(240),
]


@dataclass
class Demo:
    """One demo in a process of its own. Its folder is in `temporary`, which is empty when nothing is left."""

    process: subprocess.Popen[str]
    temporary: Path
    out: Path
    err: Path

    def said(self) -> str:
        """What it has printed."""
        return self.out.read_text(encoding="utf-8")

    def up(self) -> None:
        """It has said everything that it says when it is up."""
        wait_until(lambda: "Ctrl-C" in self.said() or self.process.poll() is not None, PATIENCE, "the demo came up")
        assert self.process.poll() is None, self.said() + self.err.read_text()

    @property
    def address(self) -> str:
        """The page's address."""
        found = re.search(r"http://127\.0\.0\.1:\d+/\S*", self.said())
        assert found
        return found[0]

    @property
    def home(self) -> Path:
        """Its folder."""
        (folder,) = self.temporary.glob("supervisor-demo-*")
        return folder

    def processes(self) -> list[ProcessIdentity]:
        """The daemon and the worker, by the identities that they were recorded with."""
        daemon = json.loads((self.home / "var" / "runtime.json").read_text())
        worker = json.loads((self.home / "var" / "workers" / "OrionMX.json").read_text())
        return [identity(daemon), identity(worker)]

    def ends(self) -> int:
        """Its exit code."""
        return self.process.wait(PATIENCE)

    def left_nothing(self, processes: list[ProcessIdentity]) -> None:
        """No process, no folder, nobody at the address."""
        assert all(state(each).ended for each in processes)
        assert list(self.temporary.iterdir()) == []


def identity(document: Mapping[str, Any]) -> ProcessIdentity:
    """The identity in a document, wherever in it."""
    found = document.get("identity") or document
    return ProcessIdentity(found["pid"], found["start"], found["boot_id"])


def running_in(folder: Path) -> list[int]:
    """The PIDs of all processes whose working folder is in this one, or was before it went."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and str((entry / "cwd").readlink()).startswith(str(folder)):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def environ(temporary: Path) -> dict[str, str]:
    """A stranger's environment, in which nothing of ours is set."""
    return {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "TMPDIR": str(temporary), "LANG": "C.UTF-8"}


@pytest.fixture
def temporary() -> Iterator[Path]:
    # Not pytest's own folder: the path of a socket may be no longer than about a hundred characters.
    with tempfile.TemporaryDirectory(prefix="demo-test-") as folder:
        yield Path(folder)


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Demo]:
    with started(tmp_path) as made:
        yield made


@contextmanager
def started(folder: Path) -> Iterator[Demo]:
    """A demo in a process, its output in this folder."""
    out, err = folder / "out", folder / "err"
    with tempfile.TemporaryDirectory(prefix="demo-test-") as temporary:
        with out.open("w") as told, err.open("w") as complained:
            process = subprocess.Popen(
                [*SUPERVISOR, "demo"],
                cwd=folder,
                env=environ(Path(temporary)),
                stdin=subprocess.DEVNULL,
                stdout=told,
                stderr=complained,
                text=True,
            )
        try:
            yield Demo(process, Path(temporary), out, err)
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait(PATIENCE)


def run(temporary: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*SUPERVISOR, "demo", *words],
        cwd=temporary,
        env=environ(temporary) | variables,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )


def play(*scenes: Scene, folder: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    """What comes of a tour of these scenes, played in this process."""
    left: list[str] = []

    async def stage_and_tour() -> bool:
        async with set_up(0, asyncio.Event(), left) as stage:
            return await Tour(stage).play(scenes)

    monkeypatch.setattr("tempfile.tempdir", str(folder))
    went_well = asyncio.run(stage_and_tour())
    assert left == []
    assert list(folder.iterdir()) == []
    return went_well


def test_the_tour_prints_the_conversation_and_exits_0(temporary: Path) -> None:
    done = run(temporary, "--tour")
    assert done.returncode == 0, done.stdout + done.stderr
    story = done.stdout
    assert re.search(r"operator +/supervisor pause hotfix test\n(.*⏳ .*OrionMX.*\n)+.*OrionMX.*paused", story)
    assert re.search(r"success +pause +operator - hotfix test\n", story)
    assert re.search(r"viewer +/supervisor pause\n.*⛔", story)
    assert re.search(r"operator +@supervisor resume\n", story)
    assert re.search(r"│ ValueError: spec-004.txt has no title\n", story)
    assert f"{len(SCENES)} scenes in " in story
    assert max(map(len, story.split("\n"))) <= 80
    assert "\033" not in story
    assert done.stderr == ""
    assert list(temporary.iterdir()) == []


def test_the_tour_of_a_fleet_restarts_and_pauses_on_all_hosts_and_tells_of_a_dead_one(temporary: Path) -> None:
    done = run(temporary, "--fleet", "--tour")
    assert done.returncode == 0, done.stdout + done.stderr
    story = done.stdout
    assert "✓ each host has a new process of its worker" in story
    assert "✓ one message in #ops for 3 hosts" in story
    assert re.search(r"🔴.*web-3", story)
    assert re.search(r"✅.*web-3 recovered", story)
    assert f"{len(FLEET_SCENES)} scenes in " in story
    assert max(map(len, story.split("\n"))) <= 80
    assert done.stderr == ""
    assert running_in(temporary) == []
    assert list(temporary.iterdir()) == []


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("signals", "code"),
    [([signal.SIGINT, signal.SIGINT], 130), ([signal.SIGTERM], 0), ([signal.SIGHUP, signal.SIGTERM], 0)],
    ids=["Ctrl-C twice", "TERM", "HUP and TERM"],
)
def test_it_greets_with_five_things_to_try_and_leaves_nothing_when_asked_to_end(
    demo: Demo, signals: list[signal.Signals], code: int, tmp_path: Path
) -> None:
    demo.up()
    assert demo.address.endswith("/#as=operator&in=ops")
    with urllib.request.urlopen(demo.address.partition("#")[0] + "_playground/state", timeout=10) as answer:
        shown = json.load(answer)
    assert shown["app"]["connections"] == 1
    (greeting,) = [message for channel in shown["messages"].values() for message in channel]
    assert greeting["username"] == "Demo"
    *tasks, _more = greeting["attachments"][0]["blocks"]
    assert [task["text"]["text"][:2] for task in tasks] == ["1.", "2.", "3.", "4.", "5."]
    assert f"`touch {demo.home}/incoming/empty.txt`" in tasks[2]["text"]["text"]
    assert check_message({"text": greeting["text"], "blocks": greeting["attachments"][0]["blocks"]}) == []

    # The line for the second terminal works as it is, in any folder.
    (line,) = [line for line in demo.said().split("\n") if "SUPERVISOR_CONFIG=" in line]
    (tmp_path / "elsewhere").mkdir()
    done = subprocess.run(
        ["/bin/sh", "-c", line],
        cwd=tmp_path / "elsewhere",
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (0, "No matching rows.\n"), done.stderr
    processes = demo.processes()
    assert [str(state(each)) for each in processes] == ["alive", "alive"]
    for number in signals:
        demo.process.send_signal(number)
    assert demo.ends() == code
    demo.left_nothing(processes)
    assert demo.err.read_text() == ""


def test_a_daemon_that_dies_is_said_with_the_end_of_its_log_and_nothing_is_left(demo: Demo) -> None:
    demo.up()
    processes = demo.processes()
    os.kill(processes[0].pid, signal.SIGKILL)
    assert demo.ends() == 1
    complaint = demo.err.read_text()
    assert "The daemon crashed (signal 9)." in complaint
    assert "connected to Slack" in complaint
    demo.left_nothing(processes)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "begun", ["supervisor-demo-*", "supervisor-demo-*/daemon.log", "supervisor-demo-*/var/ledger.db"]
)
def test_asked_to_end_while_it_starts_it_leaves_nothing(demo: Demo, begun: str) -> None:
    wait_until(lambda: list(demo.temporary.glob(begun)), PATIENCE, f"it made {begun}")
    demo.process.send_signal(signal.SIGINT)
    assert demo.ends() == 130
    demo.left_nothing([])
    assert running_in(demo.temporary) == []


def test_a_taken_port_is_said_in_one_line(temporary: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = run(temporary, "--port", str(taken.getsockname()[1]))
    assert done.returncode == 1
    assert re.fullmatch(r"supervisor: Port \d+ can't be used: .*\n", done.stderr)
    assert list(temporary.iterdir()) == []


def test_without_git_it_says_what_is_missing_and_leaves_nothing(temporary: Path) -> None:
    done = run(temporary, PATH=str(temporary))
    assert (done.returncode, done.stderr) == (
        1,
        "supervisor: git isn't on the PATH. Install git and try again.\n",
    )
    assert list(temporary.iterdir()) == []
