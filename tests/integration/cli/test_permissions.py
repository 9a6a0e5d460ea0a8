"""Files that the user of the supervisor can't use: the error names the one that is in the way, and what to do."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from supervisor_core.cli import main
from supervisor_core.host.permissions import why_denied
from tests.support.programs.unprivileged import NOBODY, as_nobody

IS_ROOT = os.geteuid() == 0


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home of nobody, who can reach it, after a first pass as ourselves, which has imported what a pass needs."""
    made = Path(tempfile.mkdtemp(dir="/tmp"))
    made.chmod(0o755)
    (made / "work").mkdir()
    unlike_others = f"1000.{secrets.randbelow(10**9)}"  # nobody can't see where other processes work
    worker = {"command": ["sleep", unlike_others], "cwd": "work", "heartbeat_max_age_seconds": 0}
    document = {"supervisor": {"id": "TestHost", "state_dir": "var"}, "workers": {"OrionMX": worker}}
    (made / "config.yaml").write_text(yaml.safe_dump(document))
    monkeypatch.chdir(made)
    main(["once", "--heal"])
    main(["daemon", "stop", "--workers"])
    main(["audit"])
    for path in (made, *made.rglob("*")):
        own(path, NOBODY)
    yield made
    main(["daemon", "stop", "--workers"])
    shutil.rmtree(made)


def own(path: Path, uid: int) -> None:
    if IS_ROOT:
        os.chown(path, uid, uid)


def take_away(path: Path) -> None:
    """Give it to root alone; where we aren't root, nobody may use it."""
    own(path, 0)
    path.chmod(0o700 if IS_ROOT and path.is_dir() else 0o600 if IS_ROOT else 0)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("path", "words", "wrong"),
    [
        ("work", ["once", "--heal"], "executable"),
        ("var/ledger.db", ["audit"], "disk"),
        ("var", ["status"], "Run this as"),
        ("var", ["once"], "local disk"),
    ],
)
def test_the_error_names_what_is_in_the_way_and_the_remedy(
    folder: Path, capfd: pytest.CaptureFixture[str], path: str, words: list[str], wrong: str
) -> None:
    with as_nobody():
        main(words)  # what works as nobody imports nothing that nobody may read
    capfd.readouterr()
    main(["daemon", "stop", "--workers"])
    try:
        take_away(folder / path)
        with as_nobody():
            code = main(words)
    finally:
        (folder / path).chmod(0o755)
    said = capfd.readouterr().err
    assert code == 1, said
    assert str(folder / path) in said
    assert ("belongs to root" if IS_ROOT else "permissions of") in said
    assert ("workers.OrionMX.cwd" if path == "work" else "sudo chown" if IS_ROOT else "chmod") in said
    assert wrong not in said


def test_nobody_is_told_to_take_a_folder_of_the_system() -> None:
    with as_nobody():
        cause, remedy = why_denied("/root/app/config.yaml")
    assert "chown" not in remedy
    assert not IS_ROOT or ("/root" in cause and "another folder" in remedy)
