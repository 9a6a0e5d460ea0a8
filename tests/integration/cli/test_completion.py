"""Completion scripts: bash's runs in a real bash, and those of all shells know every subcommand and option."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from supervisor_core.cli import COMMANDS, main
from supervisor_core.cli.completion import addresses, bash, fish, zsh
from tests.support.homes import Home, a_home, demo_command
from tests.unit.test_imports import SLOW, imported_by

ASK = """
supervisor() {{ {python} -m supervisor_core.cli "$@"; }}
source {script}
COMP_LINE={line} COMP_POINT={point}
_supervisor
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    workers = {name: {"command": demo_command()} for name in ("North", "South")}
    teams: dict[str, dict[str, object]] = {"archive": {}}
    with a_home(tmp_path_factory.mktemp("completion") / "home", workers, teams=teams) as made:
        (made.folder / "script").write_text(bash())
        return made


def completed(home: Home, *words: str) -> set[str]:
    """What bash offers for the last of these words."""
    line = " ".join(("supervisor", *words))
    script = ASK.format(
        python=sys.executable,
        script=home.folder / "script",
        line=shlex.quote(line),
        point=len(line),
    )
    done = subprocess.run(["bash", "-c", script], cwd=home.folder, env=home.environ, capture_output=True, text=True)
    assert done.stderr == ""
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["rollb"], {"rollback"}),
        (["pause", ""], {"North", "South", "team:archive", "all"}),
        (["pause", "te"], {"team:archive"}),
        (["pause", "team:"], {"archive"}),
        (["pause", "team:x"], set()),
        (["logs", "--event", "worker.ex"], {"worker.exited"}),
        (["logs", "--level", ""], {"debug", "info", "warning", "error", "critical"}),
        (["pause", "No"], {"North"}),
        (["status", "--worker", "S"], {"South"}),
        (["once", "--worker-id", "N"], {"North"}),
        (["rollback", "--pre"], {"--preview"}),
        (["restart", "--k"], {"--keep-going"}),
        (["update", "--b"], {"--batch"}),
        (["daemon", "st"], {"start", "stop"}),
        (["daemon", "stop", "--w"], {"--workers"}),
        (["audit", "ver"], {"verify"}),
        (["rolling", ""], {"status", "pause", "continue", "abort", "undo"}),
        (["send", "--config", ""], set()),
        (["completion", "z"], {"zsh"}),
    ],
)
def test_bash_completes(home: Home, words: list[str], found: set[str]) -> None:
    assert completed(home, *words) - {"--wait", "--json"} >= found
    assert {each for each in completed(home, *words) if not each.startswith("-")} == {
        each for each in found if not each.startswith("-")
    }


def test_addresses_are_completed_only_if_no_shell_expands_them() -> None:
    known = ["North", "web-1/fetcher", "web-1/$(id)", "web 1/x", "/x", "web-1/", "a/b/c"]
    assert addresses(known) == ["web-1/fetcher"]


def test_names_come_from_the_configuration_that_is_typed(home: Home, tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text('workers:\n  West: {command: [x]}\n  "$(id)": {command: [x]}\n')
    assert completed(home, "pause", "--config", str(other), "") >= {"West", "all"}
    assert "team:archive" not in completed(home, "pause", "--config", str(other), "")
    assert "North" not in completed(home, "pause", "--config", str(other), "")
    assert home.supervisor("completion", "workers", "--config", str(other)).stdout == "West\n"
    assert home.supervisor("completion", "targets", "--config", str(other)).stdout == "West\nall\n"


def test_a_hub_without_a_daemon_completes_its_own_names(tmp_path: Path) -> None:
    fleet = {"role": "hub", "url": "nats://127.0.0.1:1", "credentials": "hub.seed"}
    with a_home(tmp_path, {"local": {"command": ["sleep", "9"]}}, fleet=fleet) as home:
        done = home.supervisor("completion", "targets")
        assert (done.returncode, done.stdout, done.stderr) == (0, "local\nall\n", "")


@pytest.mark.parametrize("script", [bash(), zsh(), fish()], ids=["bash", "zsh", "fish"])
def test_a_script_knows_every_subcommand_and_option(script: str) -> None:
    for name in COMMANDS:
        assert name in script, name
    for option in ("preview", "keep-going", "worker-id", "uptime", "rate-limits", "level", "if-state"):
        assert option in script, option
    assert "{" not in script.replace("${", "").replace("() {", "").replace("\n{", ""), "every place is filled"


def test_the_script_is_printed_without_importing_what_is_slow(capsys: pytest.CaptureFixture[str]) -> None:
    code = "from supervisor_core.cli import main\nimport io, contextlib\n"
    code += "with contextlib.redirect_stdout(io.StringIO()):\n    main(['completion', 'bash'])"
    assert imported_by(code) & SLOW <= {"dataclasses"}
    assert main(["completion", "fish"]) == 0
    assert capsys.readouterr().out == fish()


def test_names_are_quick(home: Home) -> None:
    code = "from supervisor_core.cli import main\nimport io, contextlib\n"
    code += "with contextlib.redirect_stdout(io.StringIO()):\n    main(['completion', 'workers'])"
    assert imported_by(code, home.environ, home.folder) & SLOW <= {"dataclasses"}
