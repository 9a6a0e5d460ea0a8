"""What a wrong configuration is answered with: the file, the line, the key, and what was probably meant."""

from __future__ import annotations

from importlib import util
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from supervisor_core.common.errors import ConfigError
from supervisor_core.config.load import load_supervisor_config

WORKER = "workers:\n  W:\n    command: [x]\n"
EXAMPLE = '["{python}", "-m", "package.module", "--config", "{config}"]'


def complaints(folder: Path, text: str, **environ: str) -> list[str]:
    """The lines of the refusal, without the folder's name."""
    file = folder / "config.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_supervisor_config(file, environ=environ)
    return [line.removeprefix(f"{folder}/") for line in str(caught.value).splitlines()]


HUB = "role: hub, url: 'nats://h', credentials: x"
HOST = f"role: host, url: 'nats://h', credentials: x, hub_key: U{'A' * 55}"
NO_SLACK = "supervisor: {id: h}\nslack: {enabled: false}\n"


def test_a_hub_and_a_host_are_configured(tmp_path: Path) -> None:
    for text in (f"supervisor: {{id: h}}\nfleet: {{{HUB}}}\n", f"{NO_SLACK}fleet: {{{HOST}}}\n"):
        (tmp_path / "config.yaml").write_text(text)
        fleet = load_supervisor_config(tmp_path / "config.yaml", environ={}).fleet
        assert fleet.credentials == tmp_path / "x"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        # Keys.
        (
            WORKER + "    stop_timout_seconds: 3\n",
            "line 4: workers.W.stop_timout_seconds isn't a setting; did you mean stop_timeout_seconds?",
        ),
        (
            "traces: {url: 'https://example.org/secret'}",
            "line 1: traces was removed; each line of the log has the id of its command",
        ),
        ("slak: {}", "line 1: slak isn't a section; did you mean slack?"),
        (
            "slack:\n  access:\n    operator: []",
            "line 3: slack.access.operator isn't a role; did you mean operators?",
        ),
        ("metrics: {port: 3}", "line 1: metrics.port isn't a setting; expected bind"),
        (
            "alerts: {expires_minutes: 3}",
            "line 1: alerts.expires_minutes isn't a setting here; it belongs in slack.approvals",
        ),
        (
            "alerts:\n  quiet_hours:\n    - {from: '1:00', till: '2:00', to: '2:00'}",
            "line 3: alerts.quiet_hours[0].till isn't a setting; expected days, from, to, zone",
        ),
        ("git:\n  author_name: a\n  author_name: b", "line 3: git.author_name is set twice; the first is on line 2"),
        # Kinds of values.
        ("slack: [1]", "line 1: slack must be a section with settings, but is a list"),
        ("workers: {W: x}", "line 1: workers.W must be a section with settings, but is text"),
        ("git: {author_name: 12}", "line 1: git.author_name must be text, but is a number; put it in quotes"),
        ("git: {author_name: }", 'line 1: git.author_name must be text, but is empty; write "" for an empty text'),
        ('git: {author_name: "a\\0b"}', "line 1: git.author_name must not contain a NUL character"),
        ('git: {author_name: "a\\nb"}', "line 1: git.author_name must be one line of printable text"),
        ("slack: {enabled: 1}", "line 1: slack.enabled must be true or false, but is a number"),
        ("slack: {enabled: 'yes'}", "line 1: slack.enabled must be true or false, but is text"),
        ("logging: {backups: 1.5}", "line 1: logging.backups must be a whole number from 0 to 1000"),
        (
            "supervisor: {heartbeat_seconds: true}",
            "line 1: supervisor.heartbeat_seconds must be a number of seconds from 0 to 604800, but is true or false",
        ),
        (
            "supervisor: {heartbeat_seconds: -1}",
            "line 1: supervisor.heartbeat_seconds must be a number of seconds from 0 to 604800",
        ),
        (
            "supervisor: {heartbeat_seconds: 1e99}",
            "line 1: supervisor.heartbeat_seconds must be a number of seconds from",
        ),
        ("supervisor: {state_dir: ''}", "line 1: supervisor.state_dir must be a path, but is empty"),
        ("supervisor: {id: 'a b'}", "line 1: supervisor.id must be a name of 1 to 64 letters, digits, dots"),
        (
            "environment: prod",
            "line 1: environment must be one of development, production, not 'prod'; did you mean production?",
        ),
        ("logging: {level: LOUD}", "line 1: logging.level must be one of DEBUG, INFO, WARNING, ERROR, CRITICAL"),
        ("logging: {file: a/b.log}", "line 1: logging.file must be a file name without a folder"),
        ("nas: {file_mode: '0888'}", "line 1: nas.file_mode must be octal file permissions that"),
        ("nas: {folders: {inbox: ../x}}", "line 1: nas.folders.inbox must be a path relative to nas.root"),
        ("nas: {folders: {inbox: /x}}", "line 1: nas.folders.inbox must be a path relative to nas.root"),
        ("nas: {folders: {inbox: 'C:x'}}", "line 1: nas.folders.inbox must be a path relative to nas.root"),
        ("nas: {folders: {inbox: ./outbox}}", "line 1: nas.folders.inbox is the same folder as outbox"),
        ("metrics: {bind: '9464'}", "line 1: metrics.bind must be a host and a port such as 127.0.0.1:9464"),
        ("metrics: {bind: 'a:99999'}", "line 1: metrics.bind must have a port from 0 to 65535"),
        ("database: {critical_tables: ['x; drop']}", "line 1: database.critical_tables[0] must be a table's name"),
        # Variables.
        (
            "git: {}\ninbox:\n  secret: ${NOWHERE}",
            (
                "line 3: inbox.secret needs the environment variable NOWHERE, which isn't set; set it, or write "
                "${NOWHERE:default}"
            ),
        ),
        # Workers.
        (
            "workers:\n  W: {}",
            f"line 2: workers.W.command is missing; example: {EXAMPLE}",
        ),
        (
            "workers: {W: {command: []}}",
            f"line 1: workers.W.command must not be empty; example: {EXAMPLE}",
        ),
        ("workers: {W: {command: run it}}", "line 1: workers.W.command must be a list, because no shell"),
        (
            "workers: {W: {command: [x, 3]}}",
            "line 1: workers.W.command[1] must be text, but is a number; put it in quotes",
        ),
        (
            "workers:\n  W:\n    command:\n      - x\n      - '{worker}'",
            "line 5: workers.W.command[1] has the unknown placeholder {worker}; did you mean {worker_id}?",
        ),
        ("workers: {W: {command: [x, '{\"a\": 1}']}}", "workers.W.command[1] has a brace that isn't a placeholder;"),
        (
            WORKER + "    env: {A: true}\n",
            "line 4: workers.W.env.A must be text, but is true or false; put it in quotes",
        ),
        (
            WORKER + "    env: {'A=': x}\n",
            "line 4: workers.W.env has an invalid variable name: empty, or with an equals",
        ),
        (WORKER + "    stop_signal: TREM\n", "workers.W.stop_signal must be one of TERM, INT, HUP"),
        (
            WORKER + "    restart: {policy: allways}\n",
            "must be one of never, on-failure, always, not 'allways'; did you mean always?",
        ),
        (
            WORKER + "    team: t\n",
            "config.yaml line 4: workers.W.team names a team that isn't configured; add it: `teams: {t: {}}`",
        ),
        (
            WORKER + "    probes: [{}]\n",
            "line 4: workers.W.probes[0] must have exactly one of http, tcp and exec, but has none of them",
        ),
        (WORKER + "    probes: [{tcp: 'a:1', exec: [x]}]\n", "but has tcp and exec"),
        (WORKER + "    probes: [{http: localhost}]\n", "workers.W.probes[0].http must be a URL such as http://"),
        (WORKER + "    code: {branch: --upload-pack=x}\n", "workers.W.code.branch must be the name of a git branch"),
        (
            WORKER + "  w: {command: [x]}\n",
            "line 4: workers.w differs from W only in case, which can lead to the same file names",
        ),
        (
            "supervisor:\n  default_worker: X1\n" + WORKER,
            "line 2: supervisor.default_worker names a worker that isn't configured; configured: W",
        ),
        ("teams: {'a b': {}}", "line 1: teams.a b isn't a team name:"),
        # Slack.
        (
            "slack: {alert_channel: '#ops'}",
            "slack.alert_channel must be a channel id (C…, at the end of its About tab),",
        ),
        (
            "slack: {access: {operators: [bob]}}",
            "slack.access.operators[0] must be a user id (U…), a usergroup id (S…), a channel id (C…, for its",
        ),
        (
            "slack: {access: {commands: {restrat: [U1]}}}",
            "line 1: slack.access.commands.restrat must be a command name; did you mean restart?",
        ),
        (
            "slack: {access: {commands: {restart: [U1], restart_watcher: [U2]}}}",
            "slack.access.commands names restart twice (aliases and handlers count as names)",
        ),
        (
            "slack: {approvals: {doors: [slak]}}",
            "slack.approvals.doors[0] must be one of slack, schedule, cli, flag, not 'slak'; did you mean slack?",
        ),
        (
            "slack: {approvals: {required_for: [update, update_code]}}",
            "slack.approvals.required_for names update twice",
        ),
        ("slack: {approvals: {votes: 0}}", "slack.approvals.votes must be a whole number from 1 to 100"),
        # Alerts.
        (
            "alerts: {maintenance: [{cron: '* * *', target: all, minutes: 1}]}",
            "alerts.maintenance[0].cron must be five fields",
        ),
        (
            "alerts: {maintenance: [{cron: '0 3 * * *', target: team:x, minutes: 1}]}",
            "alerts.maintenance[0].target names a team that isn't configured",
        ),
        (
            "alerts: {quiet_hours: [{from: 25:00, to: 6:00}]}",
            "alerts.quiet_hours[0].from must be a time of day such as 22:00",
        ),
        ("alerts: {quiet_hours: [{to: 6:00}]}", "alerts.quiet_hours[0].from is missing"),
        (
            "alerts: {quiet_hours: [{from: 6:00, to: 6:00}]}",
            "alerts.quiet_hours[0] must have different times in from and to;",
        ),
        (
            "alerts: {quiet_hours: [{from: 5:00, to: 6:00, zone: Europe}]}",
            "alerts.quiet_hours[0].zone must be a time zone",
        ),
        (
            "alerts: {quiet_hours: [{from: 5:00, to: 6:00, days: [monday]}]}",
            "alerts.quiet_hours[0].days must be days (mon,",
        ),
        ("alerts: {escalation: [{after_minutes: 1, to: []}]}", "alerts.escalation[0].to must not be empty"),
        ("alerts: {deadman_url: hc}", "alerts.deadman_url must be a URL such as https://"),
        # Databases and the fleet.
        (
            "database: {url: 'oracle://h/d'}",
            "line 1: database.url must begin with one of sqlite://, mysql+pymysql://, postgresql+psycopg://",
        ),
        ("database: {url: 'postgres://h/d'}", "; did you mean postgresql+psycopg://?"),
        (
            "database: {url: 'postgresql+psycopg://u:@/d?host=run'}",
            "database.url must be a URL such as postgresql+psycopg://user:password@host/database",
        ),
        ("database: {url: 'sqlite://'}", "database.url must name a file, such as sqlite:///var/fleet.db;"),
        ("fleet: {url: 'http://h'}", "fleet.url must be a URL such as nats://"),
        (f"fleet: {{{HUB}, hub_key: SUX}}", "fleet.hub_key must be a public key: U and 55"),
        (
            "supervisor: {id: h}\nfleet: {role: hub, url: 'nats://h'}",
            "fleet.credentials is needed with fleet.role: hub",
        ),
        (
            f"{NO_SLACK}fleet: {{role: host, url: 'nats://h', credentials: x}}",
            "fleet.hub_key is needed with fleet.role",
        ),
        (f"supervisor: {{id: a.b}}\nfleet: {{{HUB}}}", "supervisor.id must be a name of 1 to 63 letters, digits and"),
        (
            f"supervisor: {{id: h}}\ndatabase: {{url: 'mysql+pymysql://u:p@h/d'}}\nfleet: {{{HUB}}}",
            "database.url must be PostgreSQL or SQLite with fleet.role: hub",
        ),
        (f"supervisor: {{id: h}}\nfleet: {{{HOST}}}", "slack.enabled must be false with fleet.role: host"),
    ],
)
def test_one_mistake_is_one_clear_line(tmp_path: Path, text: str, complaint: str) -> None:
    (line,) = complaints(tmp_path, text)
    assert line.startswith("config.yaml line ")
    assert complaint in line


@pytest.mark.parametrize(
    "worker_id",
    ["12", "1.5", "1e5", "nan", "all", "ALL", "pause", "Pause", "update-deps", "unpause", "home", "schedule",
     "monitoring", "diagnostics", "verify-db", "deps", "Watcher", "-a", ".a", "a b", "a_b", "a/b", "é", "a" * 65, "''"],
)  # fmt: skip
def test_a_worker_may_not_be_called_so(tmp_path: Path, worker_id: str) -> None:
    (line,) = complaints(tmp_path, f"workers:\n  {worker_id}: {{command: [x]}}\n")
    assert line.startswith("config.yaml line 2: workers.")
    assert "isn't a worker id: " in line


@pytest.mark.parametrize("worker_id", ["OrionMX", "a", "3rd", "10.0.0.x", "web-1", "A" * 64, "allx", "restarter"])
def test_a_worker_may_be_called_so(tmp_path: Path, worker_id: str) -> None:
    (tmp_path / "config.yaml").write_text(f"workers: {{{worker_id}: {{command: [x]}}}}\n")
    config = load_supervisor_config(tmp_path / "config.yaml", environ={})
    assert config.pick_worker().id == worker_id


def test_all_mistakes_are_listed_in_the_order_of_the_file(tmp_path: Path) -> None:
    lines = complaints(
        tmp_path,
        "git: {nme: x}\nworkers:\n  W:\n    comand: [x]\n    team: t\n    team: u\nslack:\n  enabled: maybe\n"
        "inbox: {secret: '${NOWHERE}'}\nsupervisor: {default_worker: V}\n",
    )
    assert [int(line.split()[2].rstrip(":")) for line in lines] == [1, 3, 4, 5, 6, 8, 9, 10]


def test_a_flood_of_mistakes_is_cut_and_counted(tmp_path: Path) -> None:
    lines = complaints(tmp_path, "\n".join(f"x{n}: 1" for n in range(70)))
    assert len(lines) == 51
    assert lines[-1] == "config.yaml: and 20 more"


@pytest.mark.parametrize(
    ("text", "module", "extra"),
    [
        ("database: {url: 'mysql+pymysql://h/d'}", "pymysql", "mysql"),
        ("database: {url: 'postgresql+psycopg://h/d'}", "psycopg", "postgres"),
        ("fleet: {url: 'nats://h'}", "nats", "fleet"),
        ("alerts: {notify: ['json://h']}", "apprise", "apprise"),
    ],
)
def test_a_driver_that_is_not_there_is_named_with_what_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, module: str, extra: str
) -> None:
    real = util.find_spec

    def without_it(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name == module else real(name, package)

    monkeypatch.setattr("supervisor_core.config.fields.find_spec", without_it)
    (line,) = complaints(tmp_path, text)
    assert f"which is not installed: pip install 'supervisor-chatops[{extra}]'" in line


def test_a_driver_is_looked_for_and_not_imported(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("database: {url: 'postgresql+psycopg://u:p@h/d'}\n")
    assert load_supervisor_config(tmp_path / "config.yaml", environ={}).database.url


def test_a_mistake_in_what_is_referred_to_is_found_in_each_place(tmp_path: Path) -> None:
    lines = complaints(tmp_path, "workers:\n  A: &a\n    command: [x]\n    cwdd: .\n  B: *a\n")
    assert [line.split(" isn't")[0] for line in lines] == [
        "config.yaml line 4: workers.A.cwdd",
        "config.yaml line 4: workers.B.cwdd",
    ]
