"""`supervisor doctor`: a host in order is told to be, and each trouble is named together with what to do about it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from slack_sdk.web.async_client import AsyncWebClient

from bot.doctor import slack_queries as asking
from slack_playground import Playground
from supervisor_core.cli import main
from supervisor_core.config.load import load_supervisor_config
from supervisor_core.daemon.environment import opened_ledger
from supervisor_core.storage import envelopes
from tests.support.homes import ROOT, Daemon, Home, a_home

MANIFEST = str(ROOT / "manifest.yml")
with_manifest = pytest.mark.playground(manifest=MANIFEST)
OPERATOR, APPROVER, GROUP = "U0OPERATOR", "U0APPROVER", "S0ONCALL"
SLACK = {
    "alert_channel": "C0OPS",
    "channels": ["C0OPS", "C0GENERAL"],
    "access": {"viewers": ["*"], "operators": [OPERATOR, GROUP], "approvers": [APPROVER]},
}
TOKENS = ("SLACK_BOT_TOKEN", "SLACK_APP_TOKEN", "SLACK_BOT_TOKEN_FILE", "SLACK_APP_TOKEN_FILE", "SLACK_API_URL")


@dataclass
class Told:
    """What doctor said."""

    code: int
    ok: bool
    checks: dict[str, dict[str, Any]]
    output: str

    def __getitem__(self, name: str) -> dict[str, Any]:
        assert name in self.checks, f"no check {name} among {list(self.checks)}"
        return self.checks[name]

    @property
    def failed(self) -> list[str]:
        return [name for name, check in self.checks.items() if not check["ok"]]

    def fails_only(self, name: str, message: str, remedy: str) -> None:
        """Exactly this check fails, in words that hold these."""
        assert self.failed == [name], self.output
        assert self.code == 1
        assert message in self[name]["message"]
        assert remedy in self[name]["remedy"]


Doctor = Callable[..., Told]


@pytest.fixture
def doctor(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Doctor:
    """Runs doctor for a home, with the environment of a playground."""

    def run(home: Home, slack: Any = None, **environ: str) -> Told:
        for name in TOKENS:
            monkeypatch.delenv(name, raising=False)
        for name, value in {**(slack.environment if slack else {}), **environ}.items():
            monkeypatch.setenv(name, value)
        code = main(["doctor", "--json", "--config", str(home.config)])
        output = capsys.readouterr().out
        document = json.loads(output)
        names = [check["name"] for check in document["checks"]]
        assert len(names) == len(set(names)), names
        for check in document["checks"]:
            assert set(check) == {"name", "ok", "message", "remedy"}
            assert check["ok"] or check["remedy"], f"{check['name']} does not say what to do"
        for token in (each for name, each in os.environ.items() if name in TOKENS[:2] and each):
            assert token not in output
        return Told(code, document["ok"], {check["name"]: check for check in document["checks"]}, output)

    return run


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with a_home(tmp_path / "home", workers={}, slack=SLACK) as made:
        yield made


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[Home]:
    """A home without Slack."""
    with a_home(tmp_path / "home", workers={}) as made:
        yield made


def peopled(slack: Any) -> None:
    """The people, the group and the channels that the configuration names."""
    slack.group("oncall", slack.user("operator"), slack.user("approver"))


@with_manifest
def test_a_home_in_order_is_told_to_be(home: Home, slack: Any, doctor: Doctor) -> None:
    peopled(slack)
    told = doctor(home, slack)
    assert told.failed == []
    assert "slack_enterprise" not in told.checks
    assert (told.code, told.ok) == (0, True)
    assert list(told.checks)[:6] == ["configuration", "env_file", "state_dir", "drive", "ledger", "daemon"]
    assert "@supervisor" in told["slack_bot_token"]["message"]
    assert "optional" in told["slack_scopes"]["message"]
    assert told["slack_channels"]["message"] == "@supervisor is a member of #ops, #general"
    assert told["slack_people"]["message"] == "Slack knows all of them: 2 users and 1 user group"
    assert not home.state_dir.exists(), "looking changes nothing"


def test_without_slack_nothing_is_asked_of_it(tmp_path: Path, doctor: Doctor) -> None:
    with a_home(tmp_path / "off", workers={}, slack={"enabled": False}) as home:
        told = doctor(home, SLACK_BOT_TOKEN="xoxp-whatever")
        assert told.code == 0
        assert told["slack"]["message"] == "off: slack.enabled is false"
    with a_home(tmp_path / "none", workers={}) as home:
        told = doctor(home)
        assert told.code == 0
        assert "so the supervisor runs without Slack" in told["slack_tokens"]["message"]
        assert "synchronized with a time server" in told["clock"]["message"]


def test_people_read_a_line_for_each_check_and_the_remedy_below(bare: Home) -> None:
    bare.nas.rmdir()
    done = bare.supervisor("doctor")
    assert done.returncode == 1
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    place = next(number for number, line in enumerate(lines) if "drive:" in line)
    assert lines[place].startswith("✗ failed")
    assert lines[place + 1].strip() == "→ Mount it, or correct nas.root."
    assert lines[place + 1].startswith("     ")
    assert lines[0].startswith("✓ ok")
    remedies = sum(line.strip().startswith("→") for line in lines)
    assert lines[-1] == f"1 of {len(lines) - 2 - remedies} checks failed."


def test_a_configuration_that_is_invalid_is_an_error_as_everywhere(home: Home) -> None:
    home.config.write_text("supervisor: {idd: x}\n")
    done = home.supervisor("doctor", "--json")
    assert (done.returncode, done.stdout) == (2, "")
    assert "idd" in done.stderr


# The host


def test_folders_that_are_not_as_they_should_be(bare: Home, doctor: Doctor) -> None:
    bare.state_dir.mkdir(mode=0o755)
    bare.state_dir.chmod(0o755)
    told = doctor(bare)
    told.fails_only("state_dir", "to other users (mode 0755, not 0700)", f"chmod 700 {bare.state_dir}")
    bare.state_dir.rmdir()
    bare.state_dir.write_text("")
    doctor(bare).fails_only("state_dir", "isn't a folder", "supervisor.state_dir")
    bare.state_dir.unlink()
    bare.inbox.write_text("")
    doctor(bare).fails_only("drive", f"{bare.inbox} isn't a folder", "nas.folders")
    bare.inbox.unlink()
    for name in ("01_RAW", "Worker_Inbox"):
        (bare.nas / name).symlink_to(bare.folder)
    told = doctor(bare)
    told.fails_only(
        "drive", f"{bare.inbox} isn't a folder (Folders on the drive can't be symbolic links)", "nas.folders"
    )
    assert "01_RAW" not in told["drive"]["message"], "only workers use it"


def made_ledger(home: Home) -> Path:
    with opened_ledger(load_supervisor_config(home.config)) as ledger:
        return Path(ledger.name)


def test_a_ledger_is_looked_at_without_being_changed(bare: Home, doctor: Doctor) -> None:
    path = made_ledger(bare)
    before = path.read_bytes()
    told = doctor(bare)
    assert told.failed == []
    assert "intact" in told["ledger"]["message"]
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("version", "message", "remedy"),
    [
        ("0016", "of a development version (0016)", "move ledger.db"),
        ("9999", "version 9999", "Install that version"),
    ],
)
def test_a_ledger_of_another_version(bare: Home, doctor: Doctor, version: str, message: str, remedy: str) -> None:
    path = made_ledger(bare)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", (version,))
    connection.close()
    doctor(bare).fails_only("ledger", message, remedy)


def test_a_ledger_that_is_damaged_or_is_none(bare: Home, doctor: Doctor) -> None:
    path = made_ledger(bare)
    content = bytearray(path.read_bytes())
    content[4096:8192] = os.urandom(4096)
    path.write_bytes(content)
    doctor(bare).fails_only("ledger", str(path), "With a backup: supervisor restore FILE.")
    path.write_bytes(b"this is no database" * 100)
    doctor(bare).fails_only("ledger", "is damaged: file is not a database", "With a backup: supervisor restore FILE.")


# The tokens


XOXB, XAPP = "xoxb-1-hunter2", "xapp-1-hunter2"


@pytest.mark.parametrize(
    ("environ", "message", "remedy"),
    [
        ({"SLACK_BOT_TOKEN": XOXB}, "SLACK_APP_TOKEN isn't set,", "App-Level Tokens"),
        ({"SLACK_APP_TOKEN": XAPP}, "SLACK_BOT_TOKEN isn't set,", "OAuth & Permissions"),
        ({"SLACK_BOT_TOKEN": XAPP, "SLACK_APP_TOKEN": XAPP}, "SLACK_BOT_TOKEN holds an app-level token", "xoxb-"),
        ({"SLACK_BOT_TOKEN": "xoxp-1-hunter2", "SLACK_APP_TOKEN": XAPP}, "holds a user token", "Bot User OAuth Token"),
        ({"SLACK_BOT_TOKEN": "hunter2", "SLACK_APP_TOKEN": XAPP}, "holds something that isn't a Slack", "xoxb-"),
        ({"SLACK_BOT_TOKEN": f'"{XOXB}"', "SLACK_APP_TOKEN": XAPP}, "quotes around it", "Remove the quotes where"),
        (
            {"SLACK_BOT_TOKEN": XOXB, "SLACK_BOT_TOKEN_FILE": "f"},
            "Both SLACK_BOT_TOKEN and SLACK_BOT_TOKEN_FILE",
            ".env",
        ),
        ({"SLACK_BOT_TOKEN_FILE": "nowhere"}, "SLACK_BOT_TOKEN_FILE can't be read", ".env"),
        ({"SLACK_BOT_TOKEN_FILE": "empty"}, "the file in SLACK_BOT_TOKEN_FILE is empty", "xoxb-"),
        ({"SLACK_BOT_TOKEN_FILE": "user", "SLACK_APP_TOKEN": XAPP}, "SLACK_BOT_TOKEN holds a user token", "xoxb-"),
        ({"SLACK_API_URL": "http://h/"}, "SLACK_API_URL must be a URL", ".env"),
    ],
)
def test_tokens_that_can_not_be_right(
    home: Home, doctor: Doctor, environ: dict[str, str], message: str, remedy: str
) -> None:
    (home.folder / "empty").write_text("\n")
    (home.folder / "user").write_text("xoxp-1-hunter2\n")
    told = doctor(home, **environ)
    told.fails_only("slack_tokens", message, remedy)
    assert "hunter2" not in told.output


def test_tokens_are_found_in_the_file_beside_the_configuration(home: Home, slack: Any, doctor: Doctor) -> None:
    peopled(slack)
    (home.folder / "bot").write_text(f"{slack.bot_token}\n")
    lines = [f"SLACK_BOT_TOKEN_FILE=bot\nSLACK_APP_TOKEN='{slack.app_token}'\nSLACK_API_URL={slack.api_url}\n"]
    (home.folder / ".env").write_text("".join(lines))
    (home.folder / ".env").chmod(0o600)
    told = doctor(home)
    assert told.failed == []
    assert slack.bot_token not in told.output


# What Slack says of them


@with_manifest
@pytest.mark.parametrize(
    ("word", "remedy"),
    [("invalid_auth", "Bot User OAuth Token"), ("account_inactive", "Install App"), ("token_revoked", "Install App")],
)
def test_a_bot_token_that_slack_refuses(home: Home, slack: Any, doctor: Doctor, word: str, remedy: str) -> None:
    peopled(slack)
    slack.fault("error", "auth.test", error=word)
    told = doctor(home, slack)
    told.fails_only("slack_bot_token", f"Slack rejects the bot token: {word}", remedy)
    assert "slack_channels" not in told.checks
    assert told["slack_app_token"]["ok"]
    assert slack.calls("users.info") == []


@pytest.mark.parametrize(
    ("word", "message", "remedy"),
    [
        ("missing_scope", "lacks the scope connections:write", "Generate Token and Scopes"),
        ("no_permission", "lacks the scope connections:write", "Generate Token and Scopes"),
        ("not_allowed_token_type", "this isn't an app-level token", "xapp-"),
        ("socket_mode_not_enabled", "Socket Mode is off for this app", "Socket Mode → Enable Socket Mode"),
        ("forbidden_team", "doesn't allow the app in this workspace:", "workspace admin"),
        ("invalid_auth", "rejects the app-level token: invalid_auth", "Generate Token and Scopes"),
    ],
)
def test_an_app_level_token_that_opens_no_connection(
    home: Home, slack: Any, doctor: Doctor, word: str, message: str, remedy: str
) -> None:
    peopled(slack)
    slack.fault("error", "apps.connections.open", error=word)
    told = doctor(home, slack)
    told.fails_only("slack_app_token", message, remedy)
    assert "slack_connection" not in told.checks


NARROW = {
    "features": {"bot_user": {"display_name": "narrow"}},
    "oauth_config": {"scopes": {"bot": ["app_mentions:read", "channels:read", "chat:write", "commands", "users:read"]}},
}


@pytest.mark.playground(manifest=NARROW)
def test_scopes_that_are_missing_are_told_with_what_will_not_work(tmp_path: Path, slack: Any, doctor: Doctor) -> None:
    access = {"operators": [slack.user("operator").id], "approvers": [GROUP]}
    secret = slack.channel("secret", private=True)
    with a_home(tmp_path / "home", workers={}, slack={"alert_channel": secret.id, "access": access}) as home:
        told = doctor(home, slack)
    scopes = told["slack_scopes"]
    assert scopes["message"] == "missing: im:history (commands by direct message)", "what is optional is no failure"
    assert scopes["remedy"].startswith("Add im:history (https://api.slack.com/apps")
    assert "Reinstall" in scopes["remedy"]
    assert told.failed == ["slack_scopes", f"slack_group_{GROUP}"]
    assert "Grant channels:read, or groups:read" in told[f"slack_channel_{secret.id}"]["remedy"]
    refused = told[f"slack_channel_{secret.id}"]["message"]
    assert "missing_scope" in refused
    assert "needs groups:read; the token has app_mentions:read,channels:read,chat:write" in refused
    assert "needs usergroups:read; the token has app_mentions:read" in told[f"slack_group_{GROUP}"]["message"]


# Channels and people


@with_manifest
def test_channels_that_can_not_be_spoken_in(tmp_path: Path, slack: Any, doctor: Doctor) -> None:
    old, secret = slack.channel("old").archive(), slack.channel("secret", private=True, members=[slack.user("viewer")])
    slack.channel("general").without_bot()
    names = {"alert_channel": "C0GENERAL", "approval_channel": old.id, "fallback_channel": "C0NOWHERE"}
    escalation = [{"after_minutes": 5, "to": [secret.id, OPERATOR]}]
    slack.user("operator")
    with a_home(tmp_path / "home", workers={}, slack=names, alerts={"escalation": escalation}) as home:
        told = doctor(home, slack)
    assert told.failed == [f"slack_channel_{each}" for each in ("C0GENERAL", old.id, "C0NOWHERE", secret.id)]
    general = told["slack_channel_C0GENERAL"]
    assert general["message"] == "@supervisor isn't a member of slack.alert_channel: C0GENERAL (#general)"
    assert general["remedy"] == "In #general, run: /invite @supervisor"
    assert "slack.approval_channel" in told[f"slack_channel_{old.id}"]["message"]
    assert "is archived" in told[f"slack_channel_{old.id}"]["message"]
    assert "slack.fallback_channel: C0NOWHERE doesn't exist" in told["slack_channel_C0NOWHERE"]["message"]
    assert "/invite @supervisor" in told[f"slack_channel_{secret.id}"]["remedy"]
    assert "alerts.escalation[0].to" in told[f"slack_channel_{secret.id}"]["message"]


@with_manifest
def test_people_and_groups_who_get_no_rights(tmp_path: Path, slack: Any, doctor: Doctor) -> None:
    gone, robot = slack.user("gone", deleted=True), slack.user("robot", is_bot=True)
    empty = slack.group("nobody")
    access = {"operators": [gone.id, "U0NOBODY", "S0NOTHING"], "approvers": [robot.id, empty]}
    teams = {"archive": {"operators": [gone.id]}}
    with a_home(tmp_path / "home", workers={}, slack={"access": access}, teams=teams) as home:
        told = doctor(home, slack)
    assert set(told.failed) == {
        f"slack_user_{gone.id}",
        "slack_user_U0NOBODY",
        f"slack_user_{robot.id}",
        "slack_group_S0NOTHING",
        f"slack_group_{empty}",
    }
    assert "slack.access.operators, teams.archive.operators: " in told[f"slack_user_{gone.id}"]["message"]
    assert "is deactivated" in told[f"slack_user_{gone.id}"]["message"]
    assert "is a bot" in told[f"slack_user_{robot.id}"]["message"]
    assert "Copy member ID" in told["slack_user_U0NOBODY"]["remedy"]
    assert "has no members" in told[f"slack_group_{empty}"]["message"]


@with_manifest
def test_guests_and_strangers_keep_their_rights_and_are_told_of(tmp_path: Path, slack: Any, doctor: Doctor) -> None:
    guest, stranger = slack.user("guest", is_restricted=True), slack.user("stranger", team_id="T0OTHER")
    with a_home(tmp_path / "home", workers={}, slack={"access": {"approvers": [guest.id, stranger.id]}}) as home:
        told = doctor(home, slack)
    assert told.failed == []
    message = told["slack_people"]["message"]
    assert f"{guest.id} (Guest) is a guest" in message
    assert "but can't vote;" in message
    assert f"{stranger.id} (Stranger) is from another workspace" in message
    assert "no operators (slack.access.operators)" in message


@with_manifest
def test_an_app_of_a_whole_organization_is_refused_with_what_to_do(home: Home, slack: Any, doctor: Doctor) -> None:
    peopled(slack)
    slack.fault("answer", "auth.test", times=0, fields={"is_enterprise_install": True, "enterprise_id": "E0PLAYGROUND"})
    told = doctor(home, slack)
    told.fails_only(
        "slack_bot_token", "installed for a whole Enterprise organization", "Create the app in the workspace"
    )


@with_manifest
def test_in_an_organization_only_an_event_that_came_proves_that_they_arrive(
    home: Home, slack: Any, doctor: Doctor
) -> None:
    peopled(slack)
    slack.fault("answer", "auth.test", times=0, fields={"enterprise_id": "E0PLAYGROUND"})
    before = doctor(home, slack)
    assert before.failed == []
    assert "no mention or direct message was received" in before["slack_enterprise"]["message"]
    assert "Create the app in the workspace" in before["slack_enterprise"]["remedy"]
    with opened_ledger(load_supervisor_config(home.config)) as ledger:
        arrived = [envelopes.StoredEnvelope("Ev1", "events_api", {}, datetime.now(UTC))]
        ledger.write(partial(envelopes.store_envelopes, arrived=arrived))
    after = doctor(home, slack)["slack_enterprise"]
    assert after["message"] == "the workspace is in the Enterprise organization E0PLAYGROUND; events arrive"
    assert after["remedy"] == ""


@with_manifest
def test_channels_that_give_rights_and_lists_of_commands_are_looked_at_like_people(
    tmp_path: Path, slack: Any, doctor: Doctor
) -> None:
    crew = slack.channel("crew", members=[slack.user("ann")])
    access = {"operators": [crew.id], "commands": {"restart": ["U0NOBODY", "C0NOWHERE"]}}
    with a_home(tmp_path / "home", workers={}, slack={"access": access}) as home:
        told = doctor(home, slack)
    assert set(told.failed) == {"slack_user_U0NOBODY", "slack_members_C0NOWHERE"}
    message = told["slack_members_C0NOWHERE"]["message"]
    assert message.startswith("slack.access.commands.restart: C0NOWHERE gives no rights")
    assert f"{crew.id} (#crew) is public: everybody who joins gets the rights of" in told["slack_people"]["message"]
    assert "no operators (slack.access.operators)" not in told["slack_people"]["message"]


# Slack away, the clock, others


def away(slack: Any, kind: str, method: str, **parameters: Any) -> None:
    slack.fault(kind, method, times=100, **parameters)


@with_manifest
@pytest.mark.parametrize(
    ("kind", "parameters", "message"),
    [
        ("status", {"status": 503}, "with status 503"),
        ("garbage", {}, "Slack responds with status 200 and no error"),
        ("drop_before", {}, "Slack can't be reached: ServerDisconnectedError"),
        ("ratelimited", {"retry_after": 7}, "Slack's rate limit asks to wait 7 seconds"),
        ("error", {"error": "internal_error"}, "Slack responds internal_error"),
    ],
)
def test_slack_away_is_told_once(
    home: Home, slack: Any, doctor: Doctor, kind: str, parameters: dict[str, Any], message: str
) -> None:
    peopled(slack)
    away(slack, kind, "*", **parameters)
    told = doctor(home, slack)
    told.fails_only("slack", message, "doctor again" if kind == "ratelimited" else "SLACK_API_URL")
    assert slack.api_url in told["slack"]["message"]


@with_manifest
def test_slack_that_never_answers_is_given_up(
    home: Home, slack: Any, doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "CALL_SECONDS", 0.2)
    away(slack, "delay", "*", seconds=3.0)
    told = doctor(home, slack)
    told.fails_only("slack", "no response from Slack within 0.2 s", "SLACK_API_URL")
    assert len(slack.calls("auth.test")) <= 1
    assert "slack_channels" not in told.checks


@asynccontextmanager
async def somebody_else(slack: Playground) -> AsyncIterator[None]:
    """Another process with the same app-level token."""
    client = AsyncWebClient(token=slack.bot_token, base_url=slack.api_url)
    url = (await client.apps_connections_open(app_token=slack.app_token))["url"]
    async with aiohttp.ClientSession() as session, session.ws_connect(str(url)) as socket:
        assert (await socket.receive_json())["type"] == "hello"
        yield


async def test_another_process_on_the_token_is_seen_and_left_alone(home: Home, slack: Playground) -> None:
    peopled(slack)
    async with somebody_else(slack):
        told = await asyncio.to_thread(examined, home, slack)
        await slack.connected(1)
    told.fails_only("slack_connection", "app has another connection: another", "Stop the other supervisor")
    assert slack.journal("ack") == []


async def started(home: Home, slack: Playground) -> Daemon:
    """The daemon of this home, connected to this Slack."""
    (home.folder / ".env").write_text("".join(f"{name}={value}\n" for name, value in slack.environment.items()))
    (home.folder / ".env").chmod(0o600)
    return await asyncio.to_thread(home.start_daemon)


async def test_with_a_daemon_it_is_the_daemon_that_is_asked(home: Home, slack: Playground) -> None:
    peopled(slack)
    daemon = await started(home, slack)
    await slack.connected()
    opened = len(slack.journal("connection"))
    told = await asyncio.to_thread(examined, home, slack)
    assert told.failed == [], told.output
    assert f"pid {daemon.pid}" in told["daemon"]["message"]
    assert told["slack_connection"]["message"] == "the daemon is connected"
    assert len(slack.journal("connection")) == opened, "no connection beside the daemon's"

    os.kill(daemon.pid, signal.SIGSTOP)
    try:
        told = await asyncio.to_thread(examined, home, slack)
    finally:
        os.kill(daemon.pid, signal.SIGCONT)
    told.fails_only("daemon", "no response within 2 s", "supervisor.log")
    daemon.kill()
    daemon.wait()
    await slack.connected(0)
    told = await asyncio.to_thread(examined, home, slack)
    told.fails_only("daemon", "crashed", "supervisor daemon start")


async def test_a_daemon_that_sees_somebody_else_says_so(home: Home, slack: Playground) -> None:
    peopled(slack)
    async with somebody_else(slack):
        await started(home, slack)
        await slack.connected(2)
        told = await asyncio.to_thread(examined, home, slack)
    told.fails_only("slack_connection", "another process may use the same token", "If another process")


@with_manifest
def test_a_click_that_came_proves_that_interactivity_is_on(home: Home, slack: Any, doctor: Doctor) -> None:
    peopled(slack)
    before = doctor(home, slack)["slack_interactivity"]
    assert before["ok"]
    assert "can't be checked: no" in before["message"]
    assert "Interactivity & Shortcuts" in before["remedy"]
    came = [datetime(2026, 2, 5, 14, minute, tzinfo=UTC) for minute in (30, 45)]
    with opened_ledger(load_supervisor_config(home.config)) as ledger:
        arrived = [envelopes.StoredEnvelope(str(moment), "interactive", {}, moment) for moment in came]
        ledger.write(partial(envelopes.store_envelopes, arrived=arrived))
    told = doctor(home, slack)
    assert told.failed == []
    message = "on: clicks received since 2026-02-05 14:30 UTC, and last at 2026-02-05 14:45 UTC"
    assert told["slack_interactivity"] == {"name": "slack_interactivity", "ok": True, "message": message, "remedy": ""}


def examined(home: Home, slack: Playground) -> Told:
    """What doctor tells, run as a program of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "supervisor_core.cli", "doctor", "--json"],
        cwd=home.folder,
        env={**home.environ, **slack.environment},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout, done.stderr
    assert done.stderr == ""
    document = json.loads(done.stdout)
    checks = {check["name"]: check for check in document["checks"]}
    return Told(done.returncode, document["ok"], checks, done.stdout)
