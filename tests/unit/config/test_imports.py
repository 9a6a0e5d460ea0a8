"""Configurations of other tools: every setting is converted, or named with the reason why it isn't."""

from __future__ import annotations

import json
import os
import resource
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from supervisor_core.cli import main
from supervisor_core.common.errors import ConfigError
from supervisor_core.config.load import SupervisorConfig, load_supervisor_config
from supervisor_core.config.setup.imports import convert_files
from supervisor_core.config.setup.imports.conversion import Conversion, required_variables

OLD = """\
environment: production
database:
  host: db.example.org
  user: archive_app
  password: ${DB_PASSWORD}
  database: archive_state
nas:
  root: %(root)s
  scratch: C:\\Scratch\\NVMe
internet_archive:
  base_url: https://archive.org
  api_timeout_seconds: 30
  rate_limit_per_second: 1
logging:
  level: WARN
  path: %(root)s/05_LOGS
watcher:
  continuous_mode: true
  test_mode: false
  max_concurrent_tasks: 1
  scan_interval_seconds: 30
  heartbeat_interval_seconds: 300
console:
  inbox_path: /home/console/inbox
"""


class Place:
    """A checkout with the old configuration, and a drive."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.drive = folder / "repo", folder / "drive"
        self.old = self.folder / "config" / "config.dev.yaml"
        self.new = self.folder / "config.yaml"
        code = self.folder / "scripts" / "watcher" / "spec_watcher.py"
        for path in (self.old.parent, code.parent, self.drive):
            path.mkdir(parents=True)
        code.touch()
        self.write(OLD % {"root": self.drive})

    def write(self, text: str) -> None:
        self.old.write_text(text)

    def convert(self, *worker_ids: str) -> Conversion:
        return convert_files([self.old], worker_ids, environ={})

    def load(self, conversion: Conversion, **environ: str) -> SupervisorConfig:
        self.new.write_text(conversion.text("old"))
        return load_supervisor_config(self.new, environ=environ)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


class TestCornerstone:
    """`config.dev.yaml` of Cornerstone Archive."""

    def test_its_settings_mean_the_same_here(self, place: Place) -> None:
        config = place.load(place.convert(), DB_PASSWORD="secret")
        assert config.environment == "production"
        assert (config.nas.root, config.nas.layout) == (place.drive, "cornerstone")
        assert config.folder("inbox") == place.drive / "05_LOGS" / "Worker_Inbox"
        assert config.folder("outbox") == place.drive / "05_LOGS" / "Worker_Outbox"
        assert config.folder("publish") == place.drive / "04_PUBLISH"
        assert config.logging.level == "WARNING"
        worker = config.pick_worker()
        assert worker.id == "OrionMX"
        assert config.command_for(worker)[1:] == (
            *("-m", "scripts.watcher.spec_watcher", "--worker-id", "OrionMX", "--config", str(place.old)),
        )
        assert (worker.cwd, worker.code.path) == (place.folder, place.folder)
        assert worker.log_file == place.drive / "05_LOGS" / "watcher.log"
        assert worker.heartbeat_max_age_seconds == 900
        assert worker.restart.policy == "always"
        assert not config.database.url

    def test_every_setting_is_converted_or_named(self, place: Place) -> None:
        text = place.old.read_text().replace("production", "staging").replace("level: WARN", "level: LOUD")
        place.write(text + "extra: {a: [1, {b: 2}]}\nempty: {}\n")
        found = place.convert()
        note = next(each for each in found.notes if each.startswith("Not converted from config.dev.yaml"))
        for key in ("environment", "logging.level", "nas.scratch", "console.inbox_path", "extra.a[1].b", "empty"):
            assert f"{key}," in note or f"{key}." in note
        assert "nas.root" not in note
        assert place.load(found, DB_PASSWORD="secret").environment == "development"

    def test_a_variable_of_the_worker_is_passed_on_unless_a_file_sets_it(self, place: Place) -> None:
        found = place.convert()
        assert required_variables(found.document) == ["DB_PASSWORD"]
        worker = place.load(found, DB_PASSWORD="secret").pick_worker()
        assert {name: value.get_secret_value() for name, value in worker.env.items()} == {"DB_PASSWORD": "secret"}
        (place.folder / ".env").write_text("DB_PASSWORD=secret\n")
        assert required_variables(place.convert().document) == []

    def test_a_password_in_the_file_appears_nowhere(self, place: Place) -> None:
        place.write(place.old.read_text().replace("${DB_PASSWORD}", "pa55word"))
        found = place.convert()
        assert "pa55word" not in found.text("old") + repr(found)

    def test_the_inbox_is_where_the_drive_has_it(self, place: Place) -> None:
        (place.drive / "Worker_Inbox").mkdir()
        assert "folders" not in place.convert().document["nas"]
        (place.drive / "05_LOGS" / "Worker_Inbox").mkdir(parents=True)
        assert place.convert().document["nas"]["folders"]["inbox"] == "05_LOGS/Worker_Inbox"

    def test_a_drive_that_is_away_is_said(self, place: Place) -> None:
        place.drive.rmdir()
        notes = place.convert().notes
        assert any(note.startswith("The drive couldn't be read, so check nas.folders: ") for note in notes)

    def test_workers_can_be_named(self, place: Place) -> None:
        assert [*place.convert("North", "South").document["workers"]] == ["North", "South"]
        with pytest.raises(ConfigError, match="a number would be read as an argument"):
            place.convert("7")

    def test_code_that_is_elsewhere_is_said(self, place: Place) -> None:
        (place.folder / "scripts" / "watcher" / "spec_watcher.py").unlink()
        found = place.convert()
        assert f"The code of the worker isn't above {place.old}. Set cwd and code.path." in found.notes
        assert found.document["workers"]["OrionMX"]["cwd"] == str(place.old.parent)

    def test_a_virtual_environment_beside_the_code_runs_the_worker(self, place: Place) -> None:
        python = place.folder / ".venv" / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.symlink_to(sys.executable)
        assert place.convert().document["workers"]["OrionMX"]["python"] == str(python)

    def test_a_heartbeat_counts_only_for_a_python_process_of_this_host_and_worker(self, place: Place) -> None:
        state = place.drive / "00_STATE"
        state.mkdir()
        for worker_id, hostname in (("Here", socket.gethostname()), ("Elsewhere", "other.example.org")):
            beat = {"watcher_id": worker_id, "pid": os.getpid(), "hostname": hostname}
            (state / f"watcher_heartbeat_{worker_id}.json").write_text(json.dumps(beat))
        (state / "watcher_heartbeat_Broken.json").write_text("{")
        found = place.convert()
        assert [*found.document["workers"]] == ["Here"]
        assert not [note for note in found.notes if "runs as pid" in note], "this test isn't the worker"

    def test_without_a_root_there_is_nothing_to_convert(self, place: Place) -> None:
        place.write((OLD % {"root": "x"}).replace("  root: x\n", ""))
        with pytest.raises(ConfigError, match=r"has no nas\.root"):
            place.convert()


SUPERVISORD = """\
; programs of this host
[unix_http_server]
file=/tmp/supervisor.sock
password=hunter1
[supervisord]
logfile=/tmp/supervisord.log ; the main log
loglevel=warn
environment=LANG="C.UTF-8"
[program:mail_worker]
command=/bin/sleep "10 00" --name={x} --cost=$5 %(ENV_HOME)s/x %(here)s --token=%(ENV_TOKEN)s ; forever
process_name=%(program_name)s_%(process_num)02d
numprocs=2
directory=%(here)s/mail
environment=TOKEN="hunter2,x",URL='redis://u:hunter3@h/0',MODE=fast,P="%(ENV_HOME)s/a$"
autorestart=true
stopsignal=INT
startsecs=3
stopasgroup=true
stdout_logfile=/var/log/mail.log
[group:jobs]
programs=mail_worker,web
[include]
files = conf.d/*.conf
"""

WEB = """\
[program:web]
command=sleep 100%%
environment=TOKEN=hunter4
autostart=false
autorestart=false
startretries=3
stopsignal=NOSUCH
"""


@pytest.fixture
def old(tmp_path: Path) -> Path:
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "web.conf").write_text(WEB)
    path = tmp_path / "supervisord.conf"
    path.write_text(SUPERVISORD)
    return path


class TestSupervisord:
    """`supervisord.conf`, with the files that it includes."""

    def load(self, old: Path) -> SupervisorConfig:
        path = old.with_name("config.yaml")
        path.write_text(convert_files([old]).text("old"))
        environ = {"HOME": "/home/anna", "TOKEN": "t", "WEB_TOKEN": "w", "URL": "u"}
        return load_supervisor_config(path, environ=environ)

    def test_each_process_of_a_program_becomes_a_worker(self, old: Path) -> None:
        config = self.load(old)
        assert list(config.workers) == ["mail-worker-00", "mail-worker-01", "web"]
        worker, web = config.worker("mail-worker-01"), config.worker("web")
        words = ("/bin/sleep", "10 00", "--name={x}", "--cost=$5", "/home/anna/x", str(old.parent), "--token=t")
        assert config.command_for(worker) == words
        assert worker.cwd == old.parent / "mail"
        assert {name: value.get_secret_value() for name, value in worker.env.items()} == {
            "LANG": "C.UTF-8",
            "TOKEN": "t",
            "URL": "u",
            "MODE": "fast",
            "P": "/home/anna/a$",
        }
        assert (worker.restart.policy, worker.stop_signal, worker.start_grace_seconds) == ("always", "INT", 3)
        assert (worker.stop_timeout_seconds, worker.heartbeat_max_age_seconds, worker.team) == (10, 0, "jobs")
        assert config.command_for(web) == ("sleep", "100%")
        assert (web.enabled, web.restart.policy, web.stop_signal) == (False, "never", "TERM")
        assert web.env["TOKEN"].get_secret_value() == "w", "the same name with another value is another variable"

    def test_a_folder_without_a_checkout_is_not_named_as_one(self, old: Path) -> None:
        folder = old.parent / "mail"
        folder.mkdir()
        assert ("workers", "mail-worker-01", "code", "path") not in self.load(old).explicit_settings
        (folder / ".git").mkdir()
        assert self.load(old).worker("mail-worker-01").code.path == folder

    def test_no_secret_is_copied(self, old: Path) -> None:
        found = convert_files([old])
        assert "hunter" not in found.text("old") + repr(found)
        assert required_variables(found.document) == ["HOME", "TOKEN", "URL", "WEB_TOKEN"]
        assert "WEB_TOKEN stands for a value that looks like a secret, which isn't copied." in found.notes

    def test_the_rest_is_named(self, old: Path) -> None:
        found = convert_files([old])
        (note,) = (each for each in found.notes if each.startswith("Not converted from supervisord.conf"))
        for key in ("[unix_http_server]", "[supervisord] logfile", "[program:mail_worker] stdout_logfile"):
            assert key in note
        assert "[program:web]: stopsignal or autorestart isn't valid, and has its default here." in found.notes
        assert "web has no directory. Set cwd to the folder that it runs in now." in found.notes
        assert any(note.startswith("mail_worker_00 is the worker mail-worker-00: ") for note in found.notes)

    def test_names_that_can_not_be_ids_become_ids(self, old: Path) -> None:
        programs = ("restart", "7", "a b", "a_b", "all")
        old.write_text("".join(f"[program:{name}]\ncommand=x\n" for name in programs))
        assert list(self.load(old).workers) == ["worker-restart", "worker-7", "a-b", "a-b-2", "worker-all"]

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("[program:a]\n", "[program:a] has no command."),
            ("[program:a]\ncommand=x %(nothing)s\n", "[program:a] can't be expanded: 'nothing'"),
            ("[program:a]\ncommand=x 'y\n", "[program:a] can't be expanded: No closing quotation"),
            ("[program:a]\ncommand=x\nenvironment=A\n", "environment must consist of KEY="),
            ("[program:a]\ncommand=x\nnumprocs=many\n", "[program:a] numprocs must be a whole number."),
            ("[program:a]\ncommand=x\nnumprocs=0\n", "[program:a] numprocs must be 1 to 1000."),
            ("secret\n[program:a]\n", "supervisord.conf line 1: must be a section"),
            ("[program:a]\ncommand\n", "supervisord.conf line 2: must be a section, or a setting as key=value"),
        ],
    )
    def test_mistakes_are_named(self, old: Path, text: str, problem: str) -> None:
        old.write_text(text)
        with pytest.raises(ConfigError) as caught:
            convert_files([old])
        assert problem in str(caught.value)


PM2: dict[str, Any] = {
    "name": "api",
    "pm_id": 0,
    "pm2_env": {
        "pm_exec_path": "/srv/api/a.js",
        "pm_cwd": "/srv/api",
        "exec_interpreter": "node",
        "exec_mode": "cluster_mode",
        "args": ["--x", "{y} $z"],
        "node_args": ["--harmony"],
        "kill_timeout": 5000,
        "restart_delay": 4000,
        "max_restarts": 10,
        "namespace": "web team",
        "cron_restart": "0 0 * * *",
        "env": {"MODE": "fast", "N": 8, "PATH": "/bin", "SSH_TTY": "/dev/pts/1", "DB_PASSWORD": "hunter2"},
    },
}


class TestPm2:
    """The output of `pm2 jlist`."""

    def test_each_process_becomes_a_worker_without_the_shell_that_it_was_started_in(self, tmp_path: Path) -> None:
        (tmp_path / "pm2.json").write_text(json.dumps([PM2, PM2]))
        found = convert_files([tmp_path / "pm2.json"])
        (tmp_path / "config.yaml").write_text(found.text("old"))
        config = load_supervisor_config(tmp_path / "config.yaml", environ={"DB_PASSWORD": "p"})
        worker = config.worker("api-2")
        assert list(config.workers) == ["api", "api-2"]
        assert config.command_for(worker) == ("node", "--harmony", "/srv/api/a.js", "--x", "{y} $z")
        values = {name: value.get_secret_value() for name, value in worker.env.items()}
        assert values == {"MODE": "fast", "N": "8", "DB_PASSWORD": "p"}
        assert (worker.cwd, worker.team, worker.stop_signal) == (Path("/srv/api"), "web-team", "INT")
        assert (worker.stop_timeout_seconds, worker.heartbeat_max_age_seconds) == (5, 0)
        assert (worker.restart.policy, worker.restart.backoff_seconds, worker.restart.max_per_hour) == ("always", 4, 10)
        assert "hunter2" not in found.text("old") + "".join(found.notes)
        assert "Not converted from api: cron_restart." in found.notes

    @pytest.mark.parametrize("facts", [{}, {"pm_exec_path": "/x"}, {**PM2["pm2_env"], "kill_timeout": "soon"}, []])
    def test_what_pm2_never_prints_is_refused(self, tmp_path: Path, facts: Any) -> None:
        (tmp_path / "pm2.json").write_text(json.dumps([{"name": "a", "pm2_env": facts}]))
        with pytest.raises(ConfigError, match="isn't as `pm2 jlist` prints it"):
            convert_files([tmp_path / "pm2.json"])

    def test_an_ecosystem_file_asks_for_the_list(self, tmp_path: Path) -> None:
        (tmp_path / "ecosystem.config.js").write_text("module.exports = {apps: [{script: 'a.js'}]};")
        with pytest.raises(ConfigError, match="the output of `pm2 jlist`"):
            convert_files([tmp_path / "ecosystem.config.js"])


def test_several_files_become_one_configuration(place: Place, old: Path) -> None:
    other = old.with_name("other.conf")
    other.write_text("[program:web]\ncommand=x\nenvironment=TOKEN=hunter5\n[supervisord]\nloglevel=debug\n")
    found = convert_files([place.old, old, other], environ={})
    assert [*found.document["workers"]] == ["OrionMX", "mail-worker-00", "mail-worker-01", "web", "web-2"]
    assert found.document["teams"] == {"jobs": {}}
    assert found.document["workers"]["web-2"]["env"]["TOKEN"] == "${WEB_TOKEN}", "another secret of the same name"
    place.new.write_text(found.text("old"))
    environ = dict.fromkeys(required_variables(found.document), "x")
    assert list(load_supervisor_config(place.new, environ=environ).workers) == [*found.document["workers"]]


def test_two_files_with_the_same_worker_are_refused(place: Place) -> None:
    other = place.old.with_name("other.yaml")
    other.write_text(place.old.read_text())
    with pytest.raises(ConfigError, match="Two files have a worker OrionMX"):
        convert_files([place.old, other], environ={})


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [*a]\n",
        "[" * 50_000,
        "a: &a [1, 2]\nb: &b [*a, *a]\n"
        + "".join(f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join([f'*{chr(97 + n)}'] * 9)}]\n" for n in range(1, 10)),
    ],
)
def test_a_document_that_contains_itself_again_and_again_is_refused(place: Place, text: str) -> None:
    place.write(text)
    with pytest.raises(ConfigError):
        place.convert()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("workers: {A: {command: [x]}}\n", "is already a configuration of the supervisor."),
        (
            "hello\n",
            "has no known format. Formats: Cornerstone Archive, systemd, supervisord, and the output of `pm2 jlist`.",
        ),
        ("a: 1\nb: [\n", "has no known format. Formats: "),
        ("", "has no known format. Formats: "),
    ],
)
def test_other_files_are_refused(place: Place, text: str, problem: str) -> None:
    place.write(text)
    with pytest.raises(ConfigError) as caught:
        place.convert()
    assert problem in str(caught.value)


@pytest.mark.parametrize("endless", ["old.conf", "included.conf"])
def test_a_file_without_an_end_is_refused(tmp_path: Path, endless: str) -> None:
    (tmp_path / "old.conf").write_text("[supervisord]\n[include]\nfiles = included.conf\n")
    (tmp_path / endless).unlink(missing_ok=True)
    (tmp_path / endless).symlink_to("/dev/zero")
    limit = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (4 * 1024**3, limit[1]))
    try:
        with pytest.raises(ConfigError, match=rf"{endless} is larger than"):
            convert_files([tmp_path / "old.conf"])
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limit)


class TestCommand:
    """`supervisor import`."""

    def run(self, place: Place, *words: str) -> int:
        return main(["import", str(place.old), "--output", str(place.new), *words])

    def test_it_writes_the_file_and_reports(self, place: Place, capsys: pytest.CaptureFixture[str]) -> None:
        assert self.run(place) == 0
        said = capsys.readouterr()
        assert f"Converted {place.old} to {place.new}. Workers: OrionMX." in said.out
        assert "Note: Not converted from config.dev.yaml" in said.err
        assert "nas.scratch, internet_archive.base_url" in said.err
        assert f"Note: set DB_PASSWORD in {place.new.with_name('.env')} (NAME=value, mode 0600)." in said.err
        assert f"Note: {place.new} and its state folder are in {place.folder}. Keep them out of the code." in said.err
        (place.folder / ".env").write_text("DB_PASSWORD=secret\n")
        assert main(["config", "check", "--config", str(place.new)]) == 0

    def test_it_replaces_no_file_unless_told_to(self, place: Place, capsys: pytest.CaptureFixture[str]) -> None:
        place.new.write_text("mine\n")
        assert self.run(place) == 2
        assert f"{place.new} exists. Choose another --output, or replace it with --force." in capsys.readouterr().err
        assert place.new.read_text() == "mine\n"
        assert self.run(place, "--force") == 0
        assert "cornerstone" in place.new.read_text()

    def test_an_old_file_in_the_place_of_ours_is_recognized(
        self, place: Place, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["config", "check", "--config", str(place.old)]) == 2
        said: Any = capsys.readouterr().err
        assert said == (
            f"supervisor: {place.old} line 1: this is a configuration of Cornerstone Archive; convert it with "
            "supervisor import\n"
        )
