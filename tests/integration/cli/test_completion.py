"""Completion: what the shells ask for at each TAB. The scripts themselves run in real shells."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisor_core.cli import COMMANDS
from supervisor_core.cli.completion import script, valid_addresses
from tests.support.homes import Home, a_home, demo_command
from tests.unit.test_imports import SLOW, imported_by


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    workers = {name: {"command": demo_command()} for name in ("North", "South")}
    with a_home(tmp_path_factory.mktemp("completion") / "home", workers, teams={"archive": {}}) as made:
        return made


def test_names_come_from_the_configuration_and_none_that_a_shell_expands(home: Home, tmp_path: Path) -> None:
    ids = ["North", "web-1/fetcher", "web-1/$(id)", "web 1/x", "/x", "web-1/", "a/b/c"]
    assert valid_addresses(ids) == ["web-1/fetcher"]
    assert home.supervisor("completion", "targets").stdout.split() == ["North", "South", "team:archive", "all"]
    other = tmp_path / "other.yaml"
    other.write_text('workers:\n  West: {command: [x]}\n  "$(id)": {command: [x]}\n')
    assert home.supervisor("completion", "workers", "--config", str(other)).stdout == "West\n"
    code = "from supervisor_core.cli import main\nimport io, contextlib\n"
    code += "with contextlib.redirect_stdout(io.StringIO()):\n    main(['completion', 'workers'])"
    assert imported_by(code, home.environ, home.folder) & SLOW <= {"dataclasses"}, "somebody waits after a TAB"


def test_a_hub_without_a_daemon_completes_its_own_names(tmp_path: Path) -> None:
    fleet = {"role": "hub", "url": "nats://127.0.0.1:1", "credentials": "hub.seed"}
    with a_home(tmp_path, {"local": {"command": ["sleep", "9"]}}, fleet=fleet) as home:
        done = home.supervisor("completion", "targets")
        assert (done.returncode, done.stdout, done.stderr) == (0, "local\nall\n", "")


def test_a_script_knows_every_subcommand_and_option() -> None:
    for shell in ("bash", "zsh", "fish"):
        text = script(shell)
        for name in (*COMMANDS, "preview", "keep-going", "worker-id", "uptime", "rate-limits", "level", "if-state"):
            assert name in text, (shell, name)
