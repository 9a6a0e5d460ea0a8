"""What a wrong configuration is answered with: the file, the line, the key, and what was probably meant."""

from __future__ import annotations

from importlib import util
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from supervisor_core.common.errors import ConfigError
from supervisor_core.config.load import load_supervisor_config


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


@pytest.mark.parametrize("name", ["settings", "workers", "commands", "slack", "receivers"])
def test_every_mistake_in_a_file_is_reported_with_its_line_and_key(tmp_path: Path, name: str) -> None:
    text = (Path(__file__).parent / "mistakes" / f"{name}.yaml").read_text(encoding="utf-8")
    numbered = enumerate(text.splitlines()[1:], 2)
    expected = [(number, line.partition("  # ")[2]) for number, line in numbered if "  # " in line]
    lines = complaints(tmp_path, text)
    assert len(lines) == len(expected)
    assert "hunter2" not in "".join(lines)
    for line, (number, beginning) in zip(lines, expected, strict=True):
        assert line.startswith(f"config.yaml line {number}: {beginning}")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            "slack: {access: {commands: {restart: [U1], restart_watcher: [U2]}}}",
            "slack.access.commands names restart twice (aliases and handlers count as names)",
        ),
        (
            "slack: {approvals: {required_for: [update, update_code]}}",
            "slack.approvals.required_for names update twice",
        ),
        ("database: {url: 'postgres://h/d'}", "; did you mean postgresql+psycopg://?"),
        (
            "database: {url: 'postgresql+psycopg://u:@/d?host=run'}",
            "database.url must be a URL such as postgresql+psycopg://user:password@host/database",
        ),
        ("database: {url: 'sqlite://'}", "database.url must name a file, such as sqlite:///var/fleet.db;"),
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
