"""What differs between two configurations: by name, never by value, and which part a running daemon takes over."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from supervisor_core.config.diff import RESTART_WORDS, ChangedWorker, ConfigDiff, compare, in_force
from supervisor_core.config.load import SupervisorConfig, load_supervisor_config
from tests.support.sampling import examples

WORKER: dict[str, Any] = {"command": ["{python}", "--config", "{config}"]}


def configured(folder: Path, *, env: str = "", name: str = "config.yaml", **sections: Any) -> SupervisorConfig:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(yaml.safe_dump({"workers": {"a": WORKER}, **sections}))
    (folder / ".env").write_text(env)
    return load_supervisor_config(folder / name, environ={})


def test_workers_come_and_go(tmp_path: Path) -> None:
    old, new = configured(tmp_path), configured(tmp_path, workers={"b": WORKER, "c": WORKER})
    diff = compare(old, new)
    assert (diff.added, diff.removed) == (("b", "c"), ("a",))
    assert diff.live
    assert any("worker a is removed" in words for words in diff.in_words())


@pytest.mark.parametrize(
    ("key", "value"),
    [("cwd", "elsewhere"), ("log_file", "a.log"), ("python", "./python"), ("command", ["true"])],
)
def test_a_setting_that_its_process_was_started_with_restarts_a_worker(tmp_path: Path, key: str, value: Any) -> None:
    diff = compare(configured(tmp_path), configured(tmp_path, workers={"a": {**WORKER, key: value}}))
    assert (diff.restarted, diff.changed) == ((ChangedWorker("a", (key,)),), ())


def test_a_worker_that_is_disabled_is_stopped_and_one_that_is_enabled_is_started(tmp_path: Path) -> None:
    on, off = (
        configured(tmp_path),
        configured(tmp_path, workers={"a": {**WORKER, "enabled": False, "cwd": "elsewhere"}}),
    )
    diff = compare(on, off)
    assert (diff.stopped, diff.started, diff.restarted, diff.changed) == (("a",), (), (), ())
    assert "worker a is disabled: it is stopped" in diff.in_words()
    assert (compare(off, on).started, compare(off, on).restarted) == (("a",), ())
    assert ConfigDiff.from_json(diff.as_json()) == diff


@pytest.mark.parametrize(
    ("settings_of_a", "keys"),
    [
        ({"restart": {"policy": "never", "on_hang": True}}, ("restart.policy", "restart.on_hang")),
        ({"probes": [{"tcp": "127.0.0.1:80"}]}, ("probes",)),
        ({"code": {"branch": "next"}}, ("code.branch",)),
    ],
)
def test_all_other_settings_are_taken_over_as_it_runs(tmp_path: Path, settings_of_a: Any, keys: Any) -> None:
    diff = compare(configured(tmp_path), configured(tmp_path, workers={"a": {**WORKER, **settings_of_a}}))
    assert (diff.restarted, diff.changed) == ((), (ChangedWorker("a", keys),))


def test_a_secret_that_changed_is_named_and_never_shown(tmp_path: Path) -> None:
    old = configured(
        tmp_path,
        env="SLACK_BOT_TOKEN=xoxb-hidden-one\n",
        workers={"a": {**WORKER, "env": {"KEY": "hidden-one", "OLD": "hidden-one"}}},
        inbox={"secret": "hidden-one"},
        database={"url": "postgresql+psycopg://me:hidden-one@db/x"},
    )
    new = configured(
        tmp_path,
        env="SLACK_BOT_TOKEN=xoxb-hidden-two\n",
        workers={"a": {**WORKER, "env": {"KEY": "hidden-two", "NEW": "hidden-two"}}},
        inbox={"secret": "hidden-two"},
        database={"url": "postgresql+psycopg://me:hidden-two@db/x"},
    )
    diff = compare(old, new)
    assert diff.restarted == (ChangedWorker("a", ("env.KEY", "env.OLD", "env.NEW")),)
    assert diff.needs_restart == ("inbox.secret", "database.url", "SLACK_BOT_TOKEN")
    assert "hidden" not in repr(diff) + json.dumps(diff.as_json()) + "".join(diff.in_words())


def test_what_needs_a_restart_of_the_daemon_is_named_by_its_key(tmp_path: Path) -> None:
    new = configured(
        tmp_path,
        nas={"root": "other"},
        slack={"alert_channel": "C0OPS"},
        environment="production",
        alerts={"quiet_hours": [{"from": "22:00", "to": "06:00"}]},
    )
    diff = compare(configured(tmp_path), new)
    assert diff.needs_restart == ("environment", "nas.root", "slack.alert_channel", "alerts.quiet_hours")
    assert not diff.live
    assert diff.in_words() == [f"environment, nas.root, slack.alert_channel, alerts.quiet_hours: {RESTART_WORDS}"]


def test_teams_are_taken_over_and_named(tmp_path: Path) -> None:
    old = configured(tmp_path, teams={"x": {"objective": "one"}, "y": {}})
    new = configured(tmp_path, teams={"x": {"objective": "two"}, "z": {}})
    assert compare(old, new).teams == ("teams.x.objective", "teams.y", "teams.z")


def test_a_draft_beside_the_file_counts_as_if_it_took_its_place(tmp_path: Path) -> None:
    old, draft = configured(tmp_path), configured(tmp_path, name="draft.yaml")
    assert old.spec_hash(old.workers["a"]) != draft.spec_hash(draft.workers["a"])
    assert compare(old, draft).empty


def test_in_force_are_the_new_workers_and_all_else_as_it_was(tmp_path: Path) -> None:
    running = configured(tmp_path, env="SLACK_BOT_TOKEN=xoxb-first\n")
    new = configured(
        tmp_path, env="SLACK_BOT_TOKEN=xoxb-other\n", workers={"b": WORKER}, nas={"root": "x"}, teams={"t": {}}
    )
    config = in_force(running, new)
    assert (list(config.workers), list(config.teams)) == (["b"], ["t"])
    assert (config.nas, config.path, config.environ) == (running.nas, running.path, running.environ)
    assert config.workers["b"].id == "b"
    assert config.environment_for(config.workers["b"]) == {}
    assert "xoxb-other" not in config.secrets
    assert list(running.workers) == ["a"], "the running one never changes"


DOCUMENTS = st.fixed_dictionaries(
    {
        "workers": st.dictionaries(
            st.sampled_from("abc"),
            st.fixed_dictionaries(
                {"command": st.sampled_from([["true"], ["{python}", "{config}"]])},
                optional={
                    "env": st.dictionaries(st.sampled_from("XY"), st.sampled_from(["1", "2"])),
                    "enabled": st.booleans(),
                    "cwd": st.sampled_from([".", "x"]),
                },
            ),
        ),
        "nas": st.fixed_dictionaries({"root": st.sampled_from(["one", "two"])}),
        "teams": st.dictionaries(st.sampled_from("tu"), st.fixed_dictionaries({"objective": st.sampled_from("xy")})),
    }
)


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(DOCUMENTS, DOCUMENTS)
def test_taking_a_configuration_over_leaves_only_what_needs_a_restart(tmp_path: Path, first: Any, second: Any) -> None:
    running, new = configured(tmp_path, **first), configured(tmp_path, **second)
    assert compare(running, running).empty
    config = in_force(running, new)
    left = compare(config, new)
    assert not left.live
    assert left.needs_restart == compare(running, new).needs_restart
    assert compare(config, in_force(config, new)).empty
    assert in_force(config, new) == config
