"""What only informs, in the local Slack: the audit trail with its pages, workers' own lines, teams, status by pages."""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from slack_playground import Playground
from supervisor_core.config.load import load_supervisor_config
from supervisor_core.daemon.environment import opened_ledger
from supervisor_core.storage.audit import chain
from supervisor_core.storage.audit.chain import AuditEntry
from tests.support.homes import a_home, demo_command
from tests.support.slack.slack_home import ACCESS, SlackHome, asked, settled, started

pytestmark = pytest.mark.playground(patience=15)

SECRET = "hunter2-hunter2"
WORKER = {"command": demo_command(), "start_grace_seconds": 0.2, "stop_timeout_seconds": 10}
HOSTILE = "<!channel> *Eve* `x` <@U0OPERATOR> &amp; =cmd()"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[SlackHome]:
    workers: dict[str, Any] = {"North": {**WORKER, "team": "poles"}, "South": {**WORKER, "team": "poles"}}
    workers["Tropic"] = {**WORKER, "enabled": False, "env": {"API_PASSWORD": SECRET}}
    workers["Tropic"]["log_file"] = str(tmp_path / "tropic.log")
    workers |= {f"Idle{number:02}": {**WORKER, "enabled": False} for number in range(30)}
    teams = {"poles": {"objective": "keep cold <!here>"}, "empty": {"objective": ""}}
    with a_home(tmp_path / "home", workers, make=SlackHome, slack={"access": ACCESS}, teams=teams) as made:
        assert isinstance(made, SlackHome)
        yield made


def fill(home: SlackHome, *entries: tuple[AuditEntry, datetime]) -> None:
    """Rows in the trail, before the daemon comes up."""
    with opened_ledger(load_supervisor_config(str(home.config))) as ledger:

        def write(connection: Any) -> None:
            for entry, at in entries:
                chain.append(connection, ledger.supervisor_id, entry, at)

        ledger.write(write)


def executed(number: int, actor: str, label: str, action: str = "PAUSE", worker: str = "North", **more: Any) -> Any:
    at = datetime(2026, 1, 31, 12, tzinfo=UTC) + timedelta(minutes=number)
    task = more.pop("task", f"task_{number}")
    return AuditEntry(actor, action, worker, label=label, task_id=task, **more), at


async def test_the_audit_trail_is_read_page_by_page_and_comes_as_a_file(home: SlackHome, slack: Playground) -> None:
    """Older, newer, by person, by command, since a day of the asker; nothing found; hostile names; the file."""
    rows = [executed(number, "cli:anna", "anna - step") for number in range(23)]
    rows.append(executed(30, "slack:T0TEAM/U0EVE", "Eve - =cmd()", "ROLLBACK_CODE", "South", outcome="failure"))
    error = {"error": f"{HOSTILE}\nsecond line", "label": HOSTILE}
    rows.append(executed(31, f"cli:{HOSTILE}", HOSTILE, "RESTART_WATCHER", outcome="failure", details=error))
    fill(home, *rows)
    await started(home, slack)
    operator, _ = slack.user("operator", tz="Pacific/Kiritimati"), slack.user("eve")
    page = await operator.slash("/supervisor audit")
    await page.is_private()
    await page.shows("restart North: failed")
    await page.shows("rollback South: failed")
    message = await page.message()
    assert "<!channel>" not in str(message)
    assert "<@U0OPERATOR>" not in str(message)
    await page.button("Older").click()
    await page.shows("task_10")
    await page.lacks("task_22")
    await page.button("Older").click()
    await page.shows("task_0")
    await page.button("Older").is_gone()
    await page.button("Newer").click()
    await page.shows("task_10")
    await page.button("Newer").click()
    await page.shows("task_22")
    await page.button("Newer").is_gone()
    await page.button("Download CSV").click()
    await operator.sees("25 rows sent to you as a file")
    await operator.dm().shows("The audit trail of TestHost: 25 rows.")
    file = await the_file(slack, "audit_")
    table = list(csv.DictReader(io.StringIO(file)))
    assert len(table) == 25
    assert table[0]["created_at"] == "2026-01-31T12:31:00.000000Z"
    assert not any(str(cell).startswith(("=", "+", "-", "@")) for row in table for cell in row.values())
    for text, shows in (
        ("audit by anna command rollback", "no entries"),
        ("audit by nobody", "Nobody with that name"),
        ("audit by @eve command rollback", "rollback South: failed"),
        ("audit South", "rollback South: failed"),
        ("audit team:poles 1", "restart North: failed"),
        ("audit command rolback", "Did you mean rollback?"),
        # Where the asker is, the 1st of February began when it was 10 o'clock on the 31st in UTC.
        ("audit since 2026-02-01", "restart North: failed"),
        ("audit since 2026-02-02", "no entries"),
    ):
        await (await operator.slash(f"/supervisor {text}")).shows(shows)
    viewer = slack.user("viewer")
    await (await viewer.slash("/supervisor audit")).shows("audit is limited to operators")


async def test_a_row_of_the_trail_names_who_asked_who_approved_and_leads_to_its_card(
    home: SlackHome, slack: Playground
) -> None:
    await started(home, slack)
    operator = slack.user("operator")
    card = await operator.slash("/supervisor pause North hotfix test")
    await card.becomes("North paused")
    await settled(home)
    page = await operator.slash("/supervisor audit by @operator")
    await page.shows("pause North: succeeded")
    await page.shows("label: hotfix test")
    place = await card.message()
    assert f"/archives/{place['channel']}/p{place['ts'].replace('.', '')}|Open>" in str(await page.message())
    everybodys = await operator.says("@bot audit")
    await everybodys.shows("pause North: succeeded")
    assert "<@U0OPERATOR>" not in str(await everybodys.message()), "nobody is called by a list in a channel"
    resumed = await operator.slash("/supervisor resume North")
    await resumed.becomes("North resumed")
    await settled(home)
    direct = await operator.says("audit 1", in_=operator.dm())
    await direct.shows("resume North: succeeded")
    await direct.button("Older").click()
    await direct.becomes("pause North: succeeded")
    assert len(operator.dm().messages()) == 2, "the page takes the place of the other one"
    sent = await asyncio.to_thread(home.json, "send", "audit by U0OPERATOR command pause")
    assert [(row["action"], row["target_id"]) for row in sent] == [("PAUSE", "North")]


async def test_what_workers_wrote_is_shown_to_the_asker_alone_and_without_secrets(
    home: SlackHome, slack: Playground, tmp_path: Path
) -> None:
    lines = [f"line {number} ``` <!here> {'x' * 100}" for number in range(400)]
    (tmp_path / "tropic.log").write_text("\n".join([*lines, f"password={SECRET}"]) + "\n")
    await started(home, slack)
    operator, viewer = slack.user("operator"), slack.user("viewer")
    few = await operator.slash("/supervisor logs Tropic 3")
    await few.is_private()
    await few.shows("last 3 lines")
    await few.shows("line 399")
    assert SECRET not in few.text
    assert "<!here>" not in str(await few.message())
    await (await operator.slash("/supervisor logs Idle00")).shows("has no output yet")
    await operator.slash("/supervisor logs Tropic 300")
    await operator.sees("of 300 lines, as many as fit")  # the file may be there before it
    await operator.dm().shows("The requested lines")
    file = await the_file(slack, "Tropic_")
    assert "line 101 " in file
    assert "line 100 " not in file
    assert SECRET not in file
    both = await operator.slash("/supervisor logs team:poles 2")
    await both.shows("North")
    await both.shows("South")
    mention = await operator.says("@bot logs Tropic 1")
    await mention.is_private()
    await (await viewer.slash("/supervisor logs Tropic")).shows("logs is limited to operators")
    (told,) = await asked(home, "send", "logs Tropic 2")
    assert [line[:8] for line in told["lines"]] == ["line 399", "password"]
    assert SECRET not in str(told)


async def test_teams_and_many_workers_are_seen_at_a_glance(home: SlackHome, slack: Playground) -> None:
    await started(home, slack)
    viewer = slack.user("viewer")
    teams = await viewer.slash("/supervisor teams")
    await teams.shows("2 teams")
    await teams.shows("poles: keep cold <!here>")
    await teams.shows("North, South")
    await teams.shows("no members")
    team = await viewer.slash("/supervisor status team:poles")
    await team.shows("keep cold")
    await team.shows("North running")
    every = await viewer.slash("/supervisor status all")
    await every.shows("33 workers")
    await every.button("Next page").click()
    await every.shows("26 to 33")
    await every.button("Next page").is_gone()
    await every.button("Previous page").click()
    await every.shows("1 to 25")
    found = await asked(home, "send", "teams")
    assert [(team["team_name"], len(team["members"])) for team in found] == [("poles", 2), ("empty", 0)]


async def the_file(slack: Playground, beginning: str) -> str:
    """The newest file whose name begins so, once it is shared."""
    files = slack.server.world.workspace.files

    def there() -> bytes | None:
        return next((each.content for each in files.values() if each.name.startswith(beginning) and each.ready), None)

    content: bytes = await slack.eventually(there, f"no file {beginning!r} came")
    return content.decode()
