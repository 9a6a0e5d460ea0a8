"""Live previews in forms: whatever the code or its commits are like, the form ends with an answer."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from slack_sdk.web.async_client import AsyncWebClient

from bot.outbound.modals import Modals
from bot.requests.form_previews import FormPreviews
from slack_playground import Playground
from slack_playground.testing.cards import Modal
from supervisor_core.code.change_plan import Commit
from supervisor_core.commands.catalog import CATALOG
from supervisor_core.commands.command import Command
from supervisor_core.common.errors import SupervisorError
from supervisor_core.config.load import SupervisorConfig, load_supervisor_config
from supervisor_core.daemon.wiring import CodeReader

HOSTILE = (
    "<!channel> *bold* `code` &amp;lt; <@U0OPERATOR>",
    "\N{ARABIC LETTER GAF}" * 300,
    "\N{FAMILY}" * 300,
    ":boom: " * 60,
    "",
    "a" * 500,
)


def config_of(tmp_path: Path, workers: Sequence[str]) -> SupervisorConfig:
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump({"workers": {each: {"command": ["true"]} for each in workers}}))
    return load_supervisor_config(path, environ={})


def refused(_command: Command) -> tuple[dict[str, Any], ...]:
    raise SupervisorError("The remote doesn't answer.")


def hostile(_workers: Sequence[str], _most: int) -> Sequence[Commit]:
    at = datetime(2026, 2, 5, tzinfo=UTC)
    return [Commit(f"{number:040x}", "0" * 40, (), at, "Eve", each) for number, each in enumerate(HOSTILE)]


def broken(_workers: Sequence[str], _most: int) -> Sequence[Commit]:
    raise RuntimeError("secret")


def nothing(*_words: object) -> None:
    return None


async def shown(slack: Playground, config: SupervisorConfig, code: CodeReader) -> Modal:
    """A rollback form with its preview."""

    async def objection(_user: str, _command: Command) -> str:
        return ""

    async def say(_messages: object) -> bool:
        return True

    modals = Modals(AsyncWebClient(token=slack.bot_token, base_url=slack.api_url, retry_handlers=[]))
    previews = FormPreviews(modals, config, code, objection)
    operator = slack.user("operator")
    trigger = str(slack.server.acting._payloads.trigger(operator.user))  # noqa: SLF001
    view = await modals.show(trigger, previews.form(CATALOG["rollback"], slack.channel("ops").id, None))
    rest = previews.opened(view, operator.id).rest
    assert rest is not None
    await rest(say)
    modal: Modal = await operator.modal("Commits to revert")
    return modal


@pytest.mark.parametrize("commits", [hostile, broken])
async def test_the_form_ends_with_an_answer_whatever_its_commits_are_like(
    slack: Playground, tmp_path: Path, commits: Any
) -> None:
    modal = await shown(slack, config_of(tmp_path, ["North"]), CodeReader(refused, commits, nothing))
    await modal.becomes("The remote doesn't answer")
    await modal.lacks("secret")
    answers = [call["answer"]["ok"] for call in slack.calls("views.update")]
    assert answers == [True]
