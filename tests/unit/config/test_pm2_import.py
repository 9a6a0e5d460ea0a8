"""pm2's ecosystem files: read as literals, never executed; each process becomes a worker, and the rest is named."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supervisor_core.common.errors import ConfigError
from supervisor_core.config.load import SupervisorConfig, load_supervisor_config
from supervisor_core.config.setup.imports.formats import convert_file
from supervisor_core.config.setup.imports.object_literals import DEEPEST, NotALiteralError, read_literal
from tests.support.sampling import examples

ECOSYSTEM = """\
'use strict';
/** What runs here. */
module.exports = {
  apps: [
    {
      name: "api",          // the server
      script: './server.js',
      node_args: '--harmony',
      args: ["--port", 8000, "{x} $y"],
      instances: 2, exec_mode: "cluster", increment_var: 'PORT',
      cwd: __dirname + '/api',
      env: { PORT: 8000, DEBUG: true, API_TOKEN: "hunter2" },
      env_production: { PORT: 80 },
      max_memory_restart: '300M',
      namespace: 'web team',
    },
    {
      name: 'py', script: `work.py`, interpreter: "python3", kill_timeout: 5_000, max_restarts: 10,
      restart_delay: 4000, cron_restart: "0 0 * * *", cwd: '/srv/$py', autorestart: true,
    },
    { script: "npm run start", autorestart: false, unknown: [1, {a: 2}] },
  ],
  deploy: { production: { user: "node" } },
};
"""


def load(path: Path) -> SupervisorConfig:
    new = path.with_name("config.yaml")
    new.write_text(convert_file(path)[1].text("old"))
    return load_supervisor_config(new, environ={"API_TOKEN": "t"})


@pytest.fixture
def ecosystem(tmp_path: Path) -> Path:
    path = tmp_path / "ecosystem.config.js"
    path.write_text(ECOSYSTEM)
    return path


class TestAnEcosystemFile:
    """`ecosystem.config.js`."""

    def test_each_process_becomes_a_worker(self, ecosystem: Path) -> None:
        config = load(ecosystem)
        folder = ecosystem.parent
        assert list(config.workers) == ["api-0", "api-1", "py", "npm"]
        one, py, npm = (config.worker(name) for name in ("api-1", "py", "npm"))
        words = ("node", "--harmony", f"{folder}/api/server.js", "--port", "8000", "{x} $y")
        assert config.command_for(one) == words
        assert {name: value.get_secret_value() for name, value in one.env.items()} == {
            "PORT": "8001",
            "DEBUG": "true",
            "API_TOKEN": "t",
            "NODE_APP_INSTANCE": "1",
        }
        assert (one.cwd, one.team, one.stop_signal, one.stop_timeout_seconds) == (
            folder / "api",
            "web-team",
            "INT",
            1.6,
        )
        assert config.command_for(py) == ("python3", "/srv/$py/work.py")
        assert py.env["PYTHONUNBUFFERED"].get_secret_value() == "1"
        assert (py.stop_timeout_seconds, py.restart.backoff_seconds, py.restart.max_per_hour) == (5, 4, 10)
        assert config.command_for(npm) == ("bash", "-c", "npm run start")
        assert [each.restart.policy for each in (one, py, npm)] == ["always", "always", "never"]
        assert {each.heartbeat_max_age_seconds for each in config.workers.values()} == {0}

    def test_every_other_setting_is_named_with_its_line(self, ecosystem: Path) -> None:
        found = convert_file(ecosystem)[1]
        assert {each.key: each.line for each in found.leftovers} == {
            "apps[0].env_production.PORT": 13,
            "apps[0].max_memory_restart": 14,
            "apps[1].cron_restart": 19,
            "apps[2].unknown[0]": 21,
            "apps[2].unknown[1].a": 21,
            "deploy.production.user": 23,
        }
        assert found.unmapped["apps[0].max_memory_restart"] == "memory isn't limited; begin the command with prlimit"
        assert any("line 5: api is in cluster mode" in note for note in found.notes)
        assert any("line 21: the app has no cwd" in note for note in found.notes)

    def test_no_secret_is_copied(self, ecosystem: Path) -> None:
        found = convert_file(ecosystem)[1]
        assert "hunter" not in found.text("old") + repr(found)
        assert found.variables == ("API_TOKEN",)

    @pytest.mark.parametrize(
        ("expression", "problem"),
        [
            ("process.env.PORT || 1", "line 2: process.env.PORT isn't a literal value."),
            ("60 * 1000", "line 2: * isn't part of a literal value."),
            ("`a${b}`", "line 2: a template with ${…} isn't a literal value."),
            ("require('os')", "line 2: require('os') isn't a literal value."),
        ],
    )
    def test_what_only_node_can_read_names_the_place_and_the_command(
        self, ecosystem: Path, expression: str, problem: str
    ) -> None:
        ecosystem.write_text("module.exports = {apps: [{script: 'x',\n args: " + expression + "}]}")
        with pytest.raises(ConfigError) as caught:
            convert_file(ecosystem)
        node = "node -e 'import(process.argv[1]).then(m => console.log(JSON.stringify(m.default)))'"
        assert problem in str(caught.value)
        assert f"{node} {ecosystem} > ecosystem.json, and import that file." in str(caught.value)

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("module.exports = {apps: []}", "ecosystem.config.js has no apps."),
            ("module.exports = {apps: [{name: 'a'}]}", "line 1: the app has no script."),
            ("module.exports = {apps: [\n7]}", "line 2: must be an object."),
            (
                "module.exports = {apps: [{script: 'x', instances: 'many'}]}",
                "line 1: instances must be max, or",
            ),
            ("const x = 1", "line 1: const isn't a literal value."),
        ],
    )
    def test_mistakes_are_named(self, ecosystem: Path, text: str, problem: str) -> None:
        ecosystem.write_text(text)
        with pytest.raises(ConfigError) as caught:
            convert_file(ecosystem)
        assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("process.json", '{"apps": [{"name": "a", "script": "/bin/a", "interpreter": "none"}]}'),
        ("process.json", '{"apps": [{"name": "a",\t"script": "/bin/a", /* x */ "interpreter": "none",}]}'),
        ("process.yml", "apps:\n- name: a\n  script: /bin/a\n  interpreter: none\n"),
        ("one.json", '{"name": "a", "script": "/bin/a", "exec_interpreter": "none"}'),
        ("list.json", '[{"name": "a", "script": "/bin/a", "exec_interpreter": "none"}]'),
        ("ecosystem.config.mjs", "export default {apps: [{name: 'a', exec: '/bin/a', interpreter: 'none'}]}"),
    ],
)
def test_other_forms_of_the_file_mean_the_same(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    found, conversion = convert_file(tmp_path / name)
    assert found.name == "pm2"
    assert conversion.document["workers"]["a"]["command"] == ["/bin/a"]
    assert conversion.leftovers == ()


def test_a_saved_list_has_one_worker_for_each_process_without_the_shell_that_it_was_saved_in(tmp_path: Path) -> None:
    one: dict[str, Any] = {
        "name": "api",
        "pm_exec_path": "/srv/api/a.js",
        "pm_cwd": "/srv/api",
        "exec_interpreter": "node",
        "instances": 2,
        "exec_mode": "cluster_mode",
        "args": ["--x"],
        "node_args": [],
        "pm_uptime": 1,
        "watch": True,
        "env": {"MODE": "fast", "PATH": "/bin", "SSH_TTY": "/dev/pts/1", "PWD": "/root", "DB_PASSWORD": "hunter2"},
    }
    (tmp_path / "dump.pm2").write_text(json.dumps([one, one]))
    found = convert_file(tmp_path / "dump.pm2")[1]
    assert list(found.document["workers"]) == ["api", "api-2"]
    worker = found.document["workers"]["api"]
    assert (worker["command"], worker["cwd"]) == (["node", "/srv/api/a.js", "--x"], "/srv/api")
    assert worker["env"] == {"MODE": "fast", "DB_PASSWORD": "${DB_PASSWORD}"}
    assert found.unmapped.keys() == {"[0].watch", "[1].watch"}


# The reader of literals


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{a: 1, 'b': [1, 2.5, 0x1f, .5, -1e3,], \"c\": null, 7: undefined}",
         {"a": 1, "b": [1, 2.5, 31, 0.5, -1000], "c": None, "7": None}),
        ("exports = 'a' + \"b\" + `c\nd`;", "abc\nd"),
        (r"'\x41\u0042\u{1F600}\ud83d\ude00\n\'\q\ud800'", "AB😀😀\n'q\ufffd"),
        ("// x\n/* y */ export default __dirname + '/z' // end", "/here/z"),
        ("[true, false]", [True, False]),
    ],
)  # fmt: skip
def test_literals_are_read_as_javascript_reads_them(text: str, value: object) -> None:
    assert read_literal(text, "/here").value == value


SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-(10**9), 10**9), st.floats(-1e3, 1e3, width=16), st.text())
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=30,
)


@settings(max_examples=examples(300))
@given(JSON, st.booleans(), st.sampled_from([None, 2]))
def test_json_is_read_as_it_is(value: object, ascii_only: bool, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    assert read_literal(f"module.exports = {text};\n", "/").value == value


NAMES = ("0x", "e9", "${", "//", "/*", "*/", "null", "apps", "script", "__dirname", "exports=", "export default")
PIECES = st.lists(st.sampled_from([*"{}[]:,'\"`\\+-a1 \n\u2028\ud83d", *NAMES]), max_size=60).map("".join)


@settings(max_examples=examples(500))
@given(st.one_of(st.text(), PIECES))
def test_any_text_is_a_value_or_a_clear_error(text: str) -> None:
    with suppress(NotALiteralError):
        read_literal(text, "/")


KEYS = ("script", "instances", "args", "cwd", "env", "name", "max_restarts", "kill_timeout", "port", "interpreter")
VALUES = st.one_of(SCALARS, st.lists(SCALARS, max_size=3), st.dictionaries(st.text(max_size=3), SCALARS, max_size=3))


@settings(max_examples=examples(200))
@given(st.one_of(SCALARS, st.dictionaries(st.sampled_from(KEYS), VALUES)))
def test_any_app_is_a_worker_or_a_clear_error(tmp_path_factory: pytest.TempPathFactory, app: object) -> None:
    path = tmp_path_factory.getbasetemp() / "any.config.js"
    path.write_text(f"module.exports = {{apps: [{json.dumps(app)}]}}")
    with suppress(ConfigError):
        assert convert_file(path)[1].text("old")


LONG = (
    *("[" * 500_000, "{a:" * 300_000, "1" * 900_000, "'" + "\\" * 900_000, "/*" * 400_000, "/**/" * 200_000),
    *("1_" * 400_000, "`" + "$" * 900_000, "a" * 900_000, "'" * 900_000, "[" * (DEEPEST + 2) + "]" * (DEEPEST + 2)),
)


@pytest.mark.parametrize("text", LONG, ids=lambda text: text[:4])
def test_a_text_that_is_long_or_deep_is_refused_at_once(text: str) -> None:
    began = time.process_time()
    with pytest.raises(NotALiteralError):
        read_literal(text, "/")
    assert time.process_time() - began < 5


def test_a_watch_that_is_off_is_not_worth_a_word(tmp_path: Path) -> None:
    app = {"name": "api", "script": "a.js", "watch": False}
    (tmp_path / "ecosystem.json").write_text(json.dumps({"apps": [app]}))
    assert not convert_file(tmp_path / "ecosystem.json")[1].unmapped
