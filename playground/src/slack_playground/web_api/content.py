"""The content of messages and views as a bot sends it: read, and refused where Slack would refuse it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slack_playground import blockkit
from slack_playground.blockkit.problems import Problem
from slack_playground.values import Json, SlackError
from slack_playground.web_api.call import Call
from slack_playground.world.world import World

TEXT_TRUNCATED = 40_000  # characters
TEXT_REFUSED_IN_UPDATE = 4_000
LOOKS = ("username", "icon_emoji", "icon_url")


@dataclass(frozen=True)
class Content:
    """The given parts of a message; `None` for the others."""

    text: str | None
    blocks: list[Json] | None
    attachments: list[Json] | None
    metadata: Json | None

    @property
    def empty(self) -> bool:
        return not (self.text and self.text.strip()) and not self.blocks and not self.attachments

    def fields(self) -> Json:
        return {"text": self.text or ""} | {
            key: value
            for key, value in (("blocks", self.blocks), ("attachments", self.attachments), ("metadata", self.metadata))
            if value
        }


def read(call: Call) -> Content:
    """The content among the arguments of a call."""
    text = None if call.arguments.get("text") is None else call.text("text")
    blocks = call.objects("blocks", "invalid_blocks_format")
    attachments = call.objects("attachments", "invalid_attachments")
    metadata = call.json("metadata", "invalid_metadata_format")
    markdown = call.text("markdown_text")
    check_content(text, blocks, attachments, markdown_text=markdown, metadata=metadata)
    if markdown:
        text, blocks = markdown, [{"type": "markdown", "text": markdown}]
    return Content(text, blocks, attachments, metadata)


def check_content(text: str | None, blocks: list[Json] | None, attachments: list[Json] | None, **more: object) -> None:
    """Refuse what Slack would; a text that is too long is cut or refused by each method in its own way."""
    payload = {"text": (text or "")[:TEXT_TRUNCATED], "blocks": blocks, "attachments": attachments, **more}
    given = {key: value for key, value in payload.items() if value}
    if given.keys() - {"metadata"}:
        check_message(given)


def author(world: World) -> Json:
    app = world.app
    return {"user": world.bot.id, "bot_id": app.bot_id, "app_id": app.app_id, "team": app.team_id}


def bot_fields(call: Call) -> Json:
    """The author: the bot, under another name and picture only with the scope for it."""
    app, fields = call.world.app, author(call.world)
    if app.has_scope("chat:write.customize"):
        looks = {name: call.text(name) for name in LOOKS if call.arguments.get(name)}
        fields |= looks | ({"subtype": "bot_message"} if looks else {})
    profile: Json = {"id": app.bot_id, "app_id": app.app_id, "user_id": fields["user"], "team_id": app.team_id}
    return fields | {"bot_profile": profile | {"name": app.name, "deleted": False, "updated": 0, "icons": {}}}


def check_message(payload: Json) -> None:
    _refuse(blockkit.check_message(payload))


def check_view(payload: Json) -> None:
    _refuse(blockkit.check_view(payload), "/view")


def _refuse(problems: Sequence[Problem], root: str = "") -> None:
    if not problems:
        return
    words = [f"{problem.what} [json-pointer:{root}{problem.pointer}]" for problem in problems]
    code = problems[0].code
    raise SlackError(code, *words, **({"errors": words} if code == "invalid_blocks" else {}))
