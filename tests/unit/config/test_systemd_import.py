"""A systemd service becomes a worker: its command, environment and limits mean the same, and the rest is named."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supervisor_core.common.errors import ConfigError
from supervisor_core.config.load import SupervisorConfig, load_supervisor_config
from supervisor_core.config.setup.imports import convert_files
from supervisor_core.config.setup.imports.conversion import Conversion, required_variables
from supervisor_core.config.setup.unit_files import (
    quoted_word,
    seconds_in,
    split_words,
)
from supervisor_core.config.worker_settings import WorkerSettings
from tests.support.sampling import examples

UNIT = """\
[Unit]
Description=Fetcher of %i
After=network.target
StartLimitIntervalSec=10min
StartLimitBurst=4

[Service]
Type=notify
User=www-data
WorkingDirectory=-/srv/%i
Environment="A=one two" B=2 "DB_PASSWORD=hunter2"
Environment=OPTS="--x '1 2'"
EnvironmentFile=-%E/nothing
EnvironmentFile={env}
ExecStartPre=/bin/true
# a comment
ExecStart=-@/usr/bin/python3 argv0 -m fetch --i=%i "${{A}} x" $OPTS ${{DB_PASSWORD}} $$5 a$B ${{HOME}} $NOPE \\
; another comment
  --tab=\\x41 {{x}} 100%%
Restart=on-abnormal
RestartSec=2min 3s
TimeoutStopSec=1min
KillSignal=SIGINT
MemoryMax=1G
LimitNOFILE=1000
Foo=bar

[Install]
WantedBy=multi-user.target
"""
VARIABLES = """\
X="y \\"z\\" $1"
# a comment
; another
B=3
S=a b\\
  c
Q='it
is'
TOKEN=hunter3
nothing
"""
ENVIRON = {"HOME": "/home/anna", "DB_PASSWORD": "p", "TOKEN": "t"}


def unit(folder: Path, text: str, name: str = "fetcher.service") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def service(*lines: str) -> str:
    return "\n".join(["[Service]", "ExecStart=/bin/x", *lines, ""])


def load(folder: Path, conversion: Conversion) -> SupervisorConfig:
    path = folder / "config.yaml"
    path.write_text(conversion.text("old"))
    return load_supervisor_config(path, environ=ENVIRON)


def worker_of(folder: Path, path: Path) -> WorkerSettings:
    return load(folder, convert_files([path])).pick_worker()


@pytest.fixture
def template(tmp_path: Path) -> Path:
    (tmp_path / "env").write_text(VARIABLES)
    return unit(tmp_path, UNIT.format(env=tmp_path / "env"), "fetcher@.service")


class TestAWholeUnit:
    """A unit with everything in it."""

    def test_the_worker_is_the_same_process(self, tmp_path: Path, template: Path) -> None:
        config = load(tmp_path, convert_files([template.with_name("fetcher@north.service")]))
        worker = config.worker("fetcher-north")
        assert config.command_for(worker) == (
            *(
                "/usr/bin/python3",
                "-m",
                "fetch",
                "--i=north",
                "one two x",
                "--x",
                "1 2",
                "p",
                "$5",
                "a$B",
                "/home/anna",
            ),
            *("--tab=A", "{x}", "100%"),
        )
        assert {name: value.get_secret_value() for name, value in worker.env.items()} == {
            "A": "one two",
            "B": "3",
            "DB_PASSWORD": "p",
            "OPTS": "--x '1 2'",
            "X": 'y "z" $1',
            "S": "a b  c",
            "Q": "it\nis",
            "TOKEN": "t",
        }
        assert worker.cwd == Path("/srv/north")
        assert (worker.stop_signal, worker.stop_timeout_seconds, worker.heartbeat_max_age_seconds) == ("INT", 60, 0)
        restart = worker.restart
        assert (restart.policy, restart.backoff_seconds) == ("on-failure", 123)

    def test_every_other_setting_is_named_with_its_line(self, template: Path) -> None:
        notes = "\n".join(convert_files([template.with_name("fetcher@north.service")]).notes)
        for key, line in {"After": 3, "User": 9, "ExecStartPre": 15, "MemoryMax": 24, "Foo": 26}.items():
            assert f"{key} (fetcher@north.service line {line})" in notes
        for text in (
            "line 17: the prefix -@ of the command is dropped.",
            "line 17: $NOPE isn't set in the unit, so it's left out.",
            "line 20: Restart=on-abnormal isn't converted exactly. Check it.",
        ):
            assert text in notes

    def test_no_secret_is_copied(self, template: Path) -> None:
        found = convert_files([template.with_name("fetcher@north.service")])
        assert "hunter" not in found.text("old") + repr(found)
        assert required_variables(found.document) == ["DB_PASSWORD", "HOME", "TOKEN"]

    def test_instances_of_a_template_become_workers_of_one_configuration(self, tmp_path: Path, template: Path) -> None:
        paths = [template.with_name(f"fetcher@{name}.service") for name in ("north", "south")]
        config = load(tmp_path, convert_files(paths))
        assert [str(each.cwd) for each in config.workers.values()] == ["/srv/north", "/srv/south"]

    def test_a_template_alone_asks_for_its_instances(self, template: Path) -> None:
        with pytest.raises(ConfigError, match=r"is a template. Name its instances: fetcher@NAME\.service\."):
            convert_files([template])


def test_drop_ins_count_in_the_order_of_their_names_and_an_empty_value_resets(tmp_path: Path) -> None:
    path = unit(tmp_path, service("Environment=A=1", "TimeoutStopSec=5", "Restart=always"))
    folder = tmp_path / "fetcher.service.d"
    folder.mkdir()
    (folder / "20.conf").write_text("[Service]\nEnvironment=C=3\nTimeoutStopSec=7\nNice=5\n")
    (folder / "10.conf").write_text("[Service]\nEnvironment=\nEnvironment=B=2\nTimeoutStopSec=6\nExecStart=\n"
                                    "ExecStart=/bin/y\n")  # fmt: skip
    found = convert_files([path])
    assert found.document["workers"]["fetcher"]["command"] == ["/bin/y"]
    worker = worker_of(tmp_path, path)
    assert (set(worker.env), worker.stop_timeout_seconds) == ({"B", "C"}, 7)
    assert f"Not converted from fetcher.service: Nice ({folder / '20.conf'} line 4)." in found.notes


def test_a_unit_of_a_user_starts_in_their_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / ".config" / "systemd" / "user"
    folder.mkdir(parents=True)
    path = unit(folder, "[Service]\nExecStart=/bin/x %h/data\n")
    assert convert_files([path]).document["workers"]["fetcher"] | {"code": {}} == {
        "command": ["/bin/x", f"{tmp_path}/data"],
        "cwd": str(tmp_path),
        "code": {},
        "stop_signal": "TERM",
        "stop_timeout_seconds": 90,
        "heartbeat_max_age_seconds": 0,
        "restart": {"policy": "never"},
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[Service]\nType=oneshot\nExecStart=/bin/x\n", "line 2: Type=oneshot runs once"),
        ("[Service]\nUser=x\n", "fetcher.service has no ExecStart."),
        ("[Service]\nExecStart=/bin/x\nExecStart=/bin/y\n", "line 3: ExecStart has several commands."),
        ("[Service]\nExecStart=/bin/x ; /bin/y\n", "line 2: ExecStart has several commands."),
        ("[Service]\nExecStart=| x\n", "line 2: ExecStart must name a program."),
        ("[Service]\nExecStart=/bin/x 'y\n", "line 2: ExecStart has a ' that isn't closed."),
        ("[Service]\nExecStart=/bin/x\nTimeoutStopSec=soon\n", "line 3: TimeoutStopSec=soon isn't a time span."),
        ("[Service]\nsecret\n", "fetcher.service line 2 must be a section, or a setting as Key=value."),
    ],
)
def test_mistakes_are_named_with_their_line(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        convert_files([unit(tmp_path, text)])
    assert problem in str(caught.value)


def test_what_can_not_be_read_or_resolved_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="line 3: The file /nothing/here doesn't exist"):
        convert_files([unit(tmp_path, service("EnvironmentFile=/nothing/here"))])
    lines = ("EnvironmentFile=-/nothing/here", "WorkingDirectory=/srv/%m", "KillSignal=RTMIN")
    notes = "\n".join(convert_files([unit(tmp_path, service(*lines))]).notes)
    assert "line 4: replace %m in WorkingDirectory by its value." in notes
    assert "line 5: KillSignal=RTMIN isn't converted exactly." in notes


# The syntax


@pytest.mark.parametrize(
    ("span", "seconds"),
    [
        *[("37min 20s", 2240.0), ("1min 30s", 90.0), ("500ms", 0.5), ("1h 2us", 3600.000002), ("0", 0.0)],
        *[("infinity", float("inf")), ("", None), ("soon", None), ("5 parsecs", None), ("90", 90.0), ("1h30min", 5400)],
        *[("1" * 9999, None), ("1 " * 9999 + "x", None)],
    ],
)
def test_time_spans_of_systemd_are_understood(span: str, seconds: float | None) -> None:
    assert seconds_in(span) == seconds


@settings(max_examples=examples(300))
@given(st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]))))
def test_quoted_words_are_read_as_they_were(words: list[str]) -> None:
    line = " ".join(map(quoted_word, words))
    assert "\n" not in line
    assert [each.replace("%%", "%").replace("$$", "$") for each in split_words(line)] == words


SIGNS = st.text(st.sampled_from("[]Service=ExecStart \\\n'\"$%{}@-;#|x1"), max_size=200)


@settings(max_examples=examples(300))
@given(st.one_of(st.text(), SIGNS))
def test_any_text_is_a_worker_or_a_clear_error(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    folder = tmp_path_factory.getbasetemp()
    for content in (text, f"[Service]\nExecStart={text}\nEnvironment={text}\n"):
        (folder / "any.service").write_text(content, encoding="utf-8", errors="replace", newline="")
        try:
            found = convert_files([folder / "any.service"])
        except ConfigError:
            continue
        assert found.document["workers"]
