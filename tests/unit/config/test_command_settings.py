"""The section `commands`: the definitions that it makes, and mistakes with their keys and lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor_core.commands.catalog import CATALOG
from supervisor_core.commands.command import Command
from supervisor_core.commands.grammar import parse
from supervisor_core.common.errors import ConfigError, RefusedError
from supervisor_core.config.diff import compare, in_force
from supervisor_core.config.load import SupervisorConfig, grammar_context, load_supervisor_config, read_config
from supervisor_core.config.schema import ORIGIN
from supervisor_core.jobs.planned_runs import plan_run, would_run

HEAD = """\
supervisor: {id: TestHost}
workers:
  North: {command: [sleep, "9"], python: /usr/bin/python3}
commands:
"""
CLEAR = """\
  clear-cache:
    argv: ["{python}", clear.py, "--days={days}", "--in={{{where}}}", "{dry_run}", "{name}"]
    parameters:
      days: {type: number, min: 1, max: 90, default: 7}
      where: {type: choice, choices: [old, all]}
      name: {pattern: "[a-z /]+"}
      dry_run: {type: flag, argument: -n}
    env: {TOKEN: "sesame-1"}
"""


@pytest.fixture(autouse=True)
def no_other_commands() -> Iterator[None]:
    yield
    CATALOG.extend(ORIGIN, ())


def loaded(folder: Path, commands: str = CLEAR, rest: str = "") -> SupervisorConfig:
    path = folder / "config.yaml"
    path.write_text(HEAD + commands + rest)
    return load_supervisor_config(path, environ={"VARIABLE": "x", "PATH": "/bin", "OTHER": "secret"})


def planned(config: SupervisorConfig, typed: str) -> tuple[str, ...]:
    command = parse(typed, grammar_context(config))
    return plan_run(config, config.worker("North"), command.name, command.params).argv


@pytest.mark.parametrize(
    ("typed", "arguments"),
    [
        ("clear-cache", ("--days=7",)),
        ("clear-cache --days 30 --where old", ("--days=30", "--in={old}")),
        ("clear-cache --dry-run --name web", ("--days=7", "-n", "web")),
        ('clear-cache --name "a b; rm /"', ()),
        ('clear-cache --name "a /b"', ("--days=7", "a /b")),
    ],
)
def test_each_value_is_one_argument_and_what_is_not_given_is_left_out(
    tmp_path: Path, typed: str, arguments: tuple[str, ...]
) -> None:
    config = loaded(tmp_path)
    if not arguments:
        with pytest.raises(Exception, match="must be of the form"):
            planned(config, typed)
        return
    assert planned(config, typed) == ("/usr/bin/python3", "clear.py", *arguments)


def test_it_runs_in_the_worker_s_folder_with_a_safe_environment_and_its_own_variables(tmp_path: Path) -> None:
    config = loaded(tmp_path)
    command = parse("clear-cache", grammar_context(config))
    run = plan_run(config, config.worker("North"), "clear-cache", command.params)
    assert (run.folder, dict(run.env)) == (tmp_path, {"PATH": "/bin", "TOKEN": "sesame-1"})
    assert "sesame" not in repr(run)
    assert "sesame-1" in config.secrets
    assert would_run(config, config.worker("North"), command)["would_run"] == "/usr/bin/python3 clear.py --days=7"


def test_lists_of_people_and_of_approvals_may_name_it(tmp_path: Path) -> None:
    lists = "slack: {access: {commands: {clear-cache: [U0ANNA]}}, approvals: {required_for: [clear-cache]}}"
    config = loaded(tmp_path, CLEAR, lists)
    assert config.needs_approval("clear-cache", "slack")
    with pytest.raises(ConfigError, match=re.escape("did you mean restart?")):
        loaded(tmp_path, CLEAR, "slack: {access: {commands: {restrat: [U0ANNA]}}}")


def test_a_new_definition_counts_at_once_and_an_earlier_request_is_refused(tmp_path: Path) -> None:
    before = loaded(tmp_path)
    command: Command = parse("clear-cache", grammar_context(before))
    (tmp_path / "config.yaml").write_text(HEAD + CLEAR.replace("clear.py", "erase.py"))
    changed = read_config(tmp_path / "config.yaml")
    diff = compare(before, changed)
    assert (diff.commands, diff.needs_restart, diff.live) == (("commands.clear-cache.argv",), (), True)
    assert in_force(before, changed).commands == changed.commands
    loaded(tmp_path, CLEAR.replace("clear.py", "erase.py"))
    with pytest.raises(RefusedError, match="isn't the one that was requested"):
        plan_run(changed, changed.worker("North"), "clear-cache", command.params)


def test_words_that_only_describe_it_do_not_change_its_definition(tmp_path: Path) -> None:
    loaded(tmp_path)
    first = CATALOG["clear-cache"].extension
    loaded(tmp_path, CLEAR + "    summary: Another one.\n    role: viewer\n")
    second = CATALOG["clear-cache"].extension
    assert first is not None
    assert second is not None
    assert first.digest == second.digest
