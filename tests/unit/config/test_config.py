"""A configuration that is right: what it means, and what it tells the programs."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import ClassVar

import pytest

from supervisor_core.common.errors import ConfigError, UsageError
from supervisor_core.config.fields import mask_url
from supervisor_core.config.load import SupervisorConfig, load_supervisor_config
from supervisor_core.config.worker_settings import LAUNCH, WorkerSettings, safe_environment

ONE = "workers:\n  OrionMX:\n    command: ['{python}', '-m', 'w', '{config}', '{worker_id}']\n"
TWO = "workers:\n  A: {command: [a]}\n  B: {command: [b]}\n"


def load(folder: Path, text: str, **environ: str) -> SupervisorConfig:
    """The configuration that a file with this text is."""
    file = folder / "config.yaml"
    file.write_text(text, encoding="utf-8")
    return load_supervisor_config(file, environ=environ)


def test_relative_paths_start_at_the_folder_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "etc"
    home.mkdir()
    (home / "config.yaml").write_text(
        "supervisor: {state_dir: s}\nnas: {root: ../drive, folders: {inbox: in/box}}\n"
        "workers: {W: {command: [x], cwd: c, log_file: l.log, python: venv/bin/python, code: {path: k}}}\n"
        "database: {url: 'sqlite:///d.db'}\n"
    )
    monkeypatch.chdir(tmp_path)
    config = load_supervisor_config("etc/config.yaml", environ={})
    worker = config.worker("W")
    assert config.path == home / "config.yaml"
    assert config.state_dir == home / "s"
    assert config.log_path == home / "s" / "supervisor.log"
    assert config.folder("inbox") == tmp_path / "drive" / "in" / "box"
    assert config.folder("state") == tmp_path / "drive" / "state"
    assert (worker.cwd, worker.log_file, worker.code.path) == (home / "c", home / "l.log", home / "k")
    assert config.python_for(worker) == str(home / "venv/bin/python")
    assert config.database.url.get_secret_value() == f"sqlite:///{home / 'd.db'}"
    assert config.resolve("x.creds") == home / "x.creds"


class TestPickingAWorker:
    """Who is meant when nobody is named."""

    def test_the_default_is_meant_where_there_are_several(self, tmp_path: Path) -> None:
        assert load(tmp_path, TWO + "supervisor: {default_worker: B}\n").pick_worker().id == "B"

    def test_without_a_default_the_error_names_the_choices(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match=r"Choose a worker: A, B\. supervisor\.default_worker is empty\."):
            load(tmp_path, TWO).pick_worker()

    def test_a_wrong_name_is_answered_with_the_nearest(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match=r"No worker 'OrionMy'\. Did you mean OrionMX\?"):
            load(tmp_path, ONE).pick_worker("OrionMy")


class TestStartingAWorker:
    """The exact command and the exact environment."""

    def test_the_placeholders_of_its_command_are_filled(self, tmp_path: Path) -> None:
        config = load(tmp_path, ONE)
        command = config.command_for(config.worker("OrionMX"))
        assert command == (sys.executable, "-m", "w", str(tmp_path / "config.yaml"), "OrionMX")

    def test_braces_written_twice_are_braces(self, tmp_path: Path) -> None:
        config = load(tmp_path, 'workers: {W: {command: [x, \'{{"a": {{}}, "w": "{worker_id}"}}\', \'{{config}}\']}}')
        assert config.command_for(config.worker("W")) == ("x", '{"a": {}, "w": "W"}', "{config}")

    def test_its_environment_is_a_safe_part_of_ours_and_its_own(self, tmp_path: Path) -> None:
        (tmp_path / ".env").write_text("FROM_FILE=secret\nPATH=/from/file\n")
        config = load(
            tmp_path,
            "database: {url: '${DATABASE_URL}'}\nworkers: {W: {command: [x], env: {TZ: UTC, OWN: '${TOKEN}'}}}\n",
            PATH="/bin",
            LC_ALL="C",
            TZ="Europe/Berlin",
            TOKEN="given",
            SLACK_BOT_TOKEN="xoxb-1",
            SLACK_APP_TOKEN="xapp-1",
            DATABASE_URL="mysql+pymysql://u:p@h/d",
            PYTHONPATH="/x",
        )
        own = config.environment_for(config.worker("W"))
        assert own == {"PATH": "/bin", "LC_ALL": "C", "TZ": "UTC", "OWN": "given"}
        assert config.environ["FROM_FILE"] == "secret"

    def test_numbers_in_its_environment_stay_as_they_were_written(self, tmp_path: Path) -> None:
        config = load(
            tmp_path,
            "workers:\n  Z: {command: [z], env: &env {V: 1.10, PORT: 8080, BIG: 1_000, MODE: 0640}}\n"
            "  W: {command: [x], env: *env}\n",
        )
        own = config.environment_for(config.worker("W"))
        assert own == {"V": "1.10", "PORT": "8080", "BIG": "1_000", "MODE": "0640"}

    def test_windows_programs_get_what_they_can_not_start_without(self) -> None:
        ours = {"SystemRoot": "C:\\Windows", "Path": "C:\\bin", "SLACK_BOT_TOKEN": "x", "HOMEPATH": "\\u"}
        assert safe_environment(ours, windows=True) == {
            "SystemRoot": "C:\\Windows",
            "Path": "C:\\bin",
            "HOMEPATH": "\\u",
        }
        assert safe_environment(ours, windows=False) == {}


class TestSpecHash:
    """Whether a change needs a restart."""

    BASE = "workers: {W: {command: [x]%s}}\nteams: {t: {}}\n"
    CHANGES: ClassVar[dict[str, str]] = {
        "python": "python: /usr/bin/python3",
        "command": "env: {}",  # replaced below: a command can't be given twice
        "cwd": "cwd: elsewhere",
        "env": "env: {A: b}",
        "log_file": "log_file: x.log",
        "enabled": "enabled: false",
        "quarantined": "quarantined: true",
        "team": "team: t",
        "stop_signal": "stop_signal: INT",
        "stop_timeout_seconds": "stop_timeout_seconds: 1",
        "start_grace_seconds": "start_grace_seconds: 1",
        "heartbeat_max_age_seconds": "heartbeat_max_age_seconds: 1",
        "probes": "probes: [{tcp: 'a:1'}]",
        "restart": "restart: {policy: never}",
        "code": "code: {branch: other}",
    }

    def hashed(self, folder: Path, text: str, **environ: str) -> str:
        config = load(folder, text, **environ)
        return config.spec_hash(config.worker("W"))

    @pytest.mark.parametrize("name", sorted({*WorkerSettings.__struct_fields__} - {"id"}))
    def test_every_setting_either_counts_or_is_known_to_take_effect_at_once(self, tmp_path: Path, name: str) -> None:
        before = self.hashed(tmp_path, self.BASE % "")
        text = self.BASE % f", {self.CHANGES[name]}"
        after = self.hashed(tmp_path, text.replace("[x]", "[y]") if name == "command" else text)
        assert (after == before) is (name not in LAUNCH)

    def test_writing_the_same_differently_needs_no_restart(self, tmp_path: Path) -> None:
        one = self.hashed(tmp_path, "workers: {W: {command: [x, '{worker_id}'], env: {A: '1', B: '2'}}}")
        other = self.hashed(tmp_path, "workers:\n  W: {env: {B: 2, A: 1}, cwd: '${C:.}', command: [x, W]}\n", Z="z")
        assert one == other


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+psycopg://user:@/db?host=/run/postgresql",
        "postgresql+psycopg:///db?host=%2Frun%2Fpostgresql",
    ],
)
def test_a_database_may_be_named_by_its_socket_alone(tmp_path: Path, url: str) -> None:
    config = load(tmp_path, f"database: {{url: '{url}'}}\n")
    assert config.database.url.get_secret_value() == url
    assert str(config.database.url) == f"{url.split(':', maxsplit=1)[0]}:///…"


class TestSecrets:
    """A secret never appears, whatever is done with a configuration."""

    TEXT = (
        "inbox: {secret: hunter2}\ndatabase: {url: 'mysql+pymysql://u:hunter2@db.example.org/d?ssl_key=hunter2'}\n"
        "fleet: {url: 'nats://u:hunter2@hub:4222'}\n"
        "alerts: {webhook: {url: 'https://hooks.example.org/hunter2', secret: hunter2},"
        " deadman_url: 'https://hc.example.org/hunter2'}\n"
        "workers: {W: {command: [x], env: {PASSWORD: hunter2}, probes: [{http: 'http://u:hunter2@h/'}]}}\n"
    )

    def test_it_is_in_no_representation(self, tmp_path: Path) -> None:
        config = load(tmp_path, self.TEXT, SLACK_BOT_TOKEN="hunter2")
        shown = f"{config!r} {config} {config.worker('W')!r} {config.worker('W').env} {config.database.url}"
        shown += f"{config.inbox} {config.alerts.webhook} {config.fleet!s} {config.alerts.deadman_url}"
        assert "hunter2" not in shown
        assert "mysql+pymysql://db.example.org/…" in shown

    @pytest.mark.parametrize(
        "text",
        [
            "inbox: {secrets: hunter2}",
            "inbox: {secret: [hunter2]}",
            "inbox: hunter2",
            "inbox: {max_age_minutes: hunter2}",
            "database: {url: hunter2}",
            "database: {url: 'hunter2://u@h'}",
            "database: {url: 'mysql+pymysql://u:hunter2@h:port/d'}",
            "fleet: {url: 'nats://hunter2@'}",
            "alerts: {webhook: {url: 'hunter2', secret: {hunter2: 1}}, deadman_url: 'ftp://hunter2'}",
            "logging: {level: '${SECRET}'}",
            "environment: ${SECRET}",
            "slack: {approvals: {doors: ['${SECRET}'], required_for: ['${SECRET}']}, alert_channel: '${SECRET}'}",
            "workers: {W: {command: ['{${SECRET}}'], team: '${SECRET}', stop_signal: '${SECRET}'}}",
            "supervisor: {default_worker: '${SECRET}', id: '!${SECRET}'}",
            "alerts: {maintenance: [{target: '${SECRET}', cron: '${SECRET}', minutes: '${SECRET}'}]}",
        ],
    )
    def test_it_is_in_no_error(self, tmp_path: Path, text: str) -> None:
        with pytest.raises(ConfigError) as caught:
            load(tmp_path, text, SECRET="hunter2")
        inner = [str(error) for error in (caught.value.__context__, caught.value.__cause__) if error]
        assert "hunter2" not in "".join([str(caught.value), *inner]).replace("secret.hunter2", "")

    @pytest.mark.parametrize(
        ("url", "shown"),
        [
            ("", ""),
            ("https://u:p@h.example.org:8443/a?b#c", "https://h.example.org:8443/…"),
            ("nats://a:secret@h1,nats://b:secret@h2", "nats://…"),
            ("http://pass word/", "http://…"),
        ],
    )
    def test_an_address_is_shown_without_what_may_be_secret(self, url: str, shown: str) -> None:
        assert mask_url(url) == shown


class TestSubstitutedValues:
    """Out of a variable everything is text, and yet a number where a number is due."""

    def test_an_unquoted_variable_may_be_a_number_or_a_truth_value(self, tmp_path: Path) -> None:
        config = load(
            tmp_path,
            "logging:\n  backups: ${N}\nslack:\n  enabled: ${F}\nalerts:\n  check_seconds: ${D:0.5}\n",
            N="3",
            F="false",
        )
        assert (config.logging.backups, config.slack.enabled, config.alerts.check_seconds) == (3, False, 0.5)

    def test_digits_are_still_a_password(self, tmp_path: Path) -> None:
        config = load(tmp_path, "inbox:\n  secret: ${S}\ngit:\n  author_name: ${S}\n", S="0123")
        assert config.inbox.secret.get_secret_value() == "0123"
        assert config.git.author_name == "0123"
        assert type(config.git.author_name) is str

    def test_in_quotes_it_is_text_and_no_number(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match=r"logging\.backups must be a whole number from 0 to 1000, but is text"):
            load(tmp_path, "logging: {backups: '${N}'}\n", N="3")


@pytest.mark.parametrize(
    ("written", "mode"), [("'0640'", 0o640), ("0640", 0o640), ("640", 0o640), ("0o660", 0o660), ("'600'", 0o600)]
)
def test_permissions_are_octal_however_they_are_written(tmp_path: Path, written: str, mode: int) -> None:
    assert load(tmp_path, f"nas: {{file_mode: {written}}}\n").nas.file_mode == mode


def test_names_are_kept_in_one_form(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        "logging: {level: warning}\nslack: {approvals: {required_for: [rollback_code, UPDATE]}}\n"
        "workers: {W: {command: [x], stop_signal: sigint}}\n"
        "alerts: {quiet_hours: [{days: 'fri-mon', from: 22:00, to: 6:30}]}\n",
    )
    assert config.logging.level == "WARNING"
    assert config.slack.approvals.required_for == ("rollback", "update")
    assert config.worker("W").stop_signal == "INT"
    (quiet,) = config.alerts.quiet_hours
    assert quiet.days == ("mon", "fri", "sat", "sun")
    assert (quiet.start.isoformat(), quiet.end.isoformat(), quiet.zone) == ("22:00:00", "06:30:00", "UTC")


def test_a_command_s_own_list_is_known_by_its_name_however_it_was_written(tmp_path: Path) -> None:
    lists = "{restart_watcher: [U1, C1, G1], 'Monitoring  Pause': ['*'], update: []}"
    config = load(tmp_path, f"slack: {{access: {{commands: {lists}}}}}\n")
    assert dict(config.slack.access.commands) == {
        "restart": ("U1", "C1", "G1"),
        "monitoring pause": ("*",),
        "update": (),
    }
    assert load(tmp_path, "slack: {access: {commands: }}\n").slack.access.commands == {}


def test_the_environment_is_our_own_where_none_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.yaml").write_text("workers: {W: {command: [x]}}\n")
    monkeypatch.setenv("SUPERVISOR_CONFIG", str(tmp_path / "mine.yaml"))
    monkeypatch.setenv("PATH", os.defpath)
    config = load_supervisor_config()
    assert config.path == tmp_path / "mine.yaml"
    assert config.environment_for(config.worker("W"))["PATH"] == os.defpath


def test_a_top_level_key_for_yaml_anchors_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(
        "x-fetcher: &fetcher {command: [sleep, '1'], team: data}\n"
        "workers: {east: {<<: *fetcher}, west: {<<: *fetcher}}\n"
        "teams: {data: {}}\n"
    )
    config = load_supervisor_config(path, environ={})
    assert [worker.command for worker in config.workers.values()] == [("sleep", "1")] * 2
