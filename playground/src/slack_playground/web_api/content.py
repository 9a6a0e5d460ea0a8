"""The content of messages and views as a bot sends it: read, and refused where Slack would refuse it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slack_playground import blockkit
from slack_playground.blockkit.problems import Problem
from slack_playground.values import Json, SlackError
from slack_playground.web_api.call import Call

TEXT_TRUNCATED = 40_000  # characters
TEXT_REFUSED_IN_UPDATE = 4_000
MARKDOWN = 12_000
ATTACHMENTS = 100
LOOKS = ("username", "icon_emoji", "icon_url")
METADATA = 16_384  # characters as JSON; Slack publishes no figure


@dataclass(frozen=True)
class Content:
    """The given parts of a message; `None` for the others."""

    text: str | None
    blocks: list[Json] | None
    attachments: list[Json] | None
    metadata: Json | None

    @property
    def empty(self) -> bool:
        """True if there is nothing to show."""
        return not (self.text and self.text.strip()) and not self.blocks and not self.attachments

    def fields(self) -> Json:
        """For a new message."""
        return {"text": self.text or ""} | {
            key: value
            for key, value in (("blocks", self.blocks), ("attachments", self.attachments), ("metadata", self.metadata))
            if value
        }


def read(call: Call) -> Content:
    """The content among the arguments of a call."""
    given = call.arguments
    text = None if given.get("text") is None else call.text("text")
    blocks = call.objects("blocks", "invalid_blocks_format")
    attachments = call.objects("attachments", "invalid_attachments")
    if given.get("markdown_text"):
        markdown = call.text("markdown_text")
        if text or blocks:
            raise SlackError("markdown_text_conflict")
        if len(markdown) > MARKDOWN:
            raise SlackError("msg_too_long")
        blocks = [{"type": "markdown", "text": markdown}]
        text = markdown
    if attachments and len(attachments) > ATTACHMENTS:
        raise SlackError("too_many_attachments")
    check_content(text, blocks, attachments)
    return Content(text, blocks, attachments, metadata(call))


def check_content(text: str | None, blocks: list[Json] | None, attachments: list[Json] | None) -> None:
    """Refuse what Slack would; a text that is too long is cut or refused by each method in its own way."""
    payload = {"text": (text or "")[:TEXT_TRUNCATED], "blocks": blocks, "attachments": attachments}
    if any(payload.values()):
        check_message({key: value for key, value in payload.items() if value})


def metadata(call: Call) -> Json | None:
    """The metadata among the arguments: an event, entities, or both."""
    value = call.json("metadata", "invalid_metadata_format")
    if value is None:
        return None
    if not isinstance(value, dict):
        raise SlackError("invalid_metadata_format")
    if not value or (isinstance(value.get("entities"), list) and "event_type" not in value):
        return value
    if not isinstance(value.get("event_type"), str) or not isinstance(value.get("event_payload"), dict):
        raise SlackError("invalid_metadata_format")
    if len(str(value)) > METADATA:
        raise SlackError("metadata_too_large")
    return value


def bot_fields(call: Call) -> Json:
    """The author: the bot, under another name and picture only with the scope for it."""
    world = call.world
    app = world.app
    fields: Json = {"user": world.bot.id, "bot_id": app.bot_id, "app_id": app.app_id, "team": app.team_id}
    if app.has_scope("chat:write.customize"):
        looks = {name: call.text(name) for name in LOOKS if call.arguments.get(name)}
        fields |= looks | ({"subtype": "bot_message"} if looks else {})
    profile: Json = {"id": app.bot_id, "app_id": app.app_id, "user_id": world.bot.id, "team_id": app.team_id}
    profile |= {"name": app.name, "deleted": False, "updated": 0, "icons": {}}
    return fields | {"bot_profile": profile}


def check_message(payload: Json) -> None:
    """Refuse a message that Slack would refuse."""
    _refuse(blockkit.check_message(payload))


def check_view(payload: Json) -> None:
    """Refuse a view that Slack would refuse; for views Slack's word is `invalid_arguments`."""
    _refuse(blockkit.check_view(payload), "/view")


def _refuse(problems: Sequence[Problem], root: str = "") -> None:
    if not problems:
        return
    words = [f"{problem.what} [json-pointer:{root}{problem.pointer}]" for problem in problems]
    code = problems[0].code
    raise SlackError(code, *words, **({"errors": words} if code == "invalid_blocks" else {}))
