"""Checking a message: its text, blocks, attachments and metadata."""

from __future__ import annotations

from collections.abc import Mapping

from slack_playground.blockkit.blocks import MARKDOWN_TEXT, check_blocks
from slack_playground.blockkit.kinds import AnyObject, Boolean, ListOf, Number, String, is_list, name_of
from slack_playground.blockkit.objects import OPTION, OPTION_GROUP
from slack_playground.blockkit.problems import MESSAGE, Problem, Report
from slack_playground.blockkit.shapes import at_least_one, join, not_together, shape

TEXT_OF_POST = 40_000  # beyond this Slack cuts the text without a word
TEXT_OF_UPDATE = 4_000
BLOCKS_OF_MESSAGE = 50
TEXT_OF_BLOCKS = 13_200  # not published; where Slack has been seen to refuse
ATTACHMENTS = 100

_WEBHOOK = ("response_type", "replace_original", "delete_original")
_COLOR = String(pattern=r"good|warning|danger|#?[0-9A-Fa-f]{6}|#?[0-9A-Fa-f]{3}", form="a color such as #2eb886")
_TEXT = String()
_FIELD = shape("a field of an attachment", {"title": _TEXT, "value": _TEXT, "short": Boolean()})
_BESIDE_BLOCKS = ("blocks", "color", "fallback", "id")
_SHOWN = ("blocks", "fallback", "text", "pretext", "title", "author_name", "fields", "image_url", "thumb_url", "footer")
_ATTACHMENT = shape(
    "an attachment",
    {
        **dict.fromkeys(("fallback", "pretext", "author_name", "author_link", "author_icon", "author_subname"), _TEXT),
        **dict.fromkeys(("title", "title_link", "text", "image_url", "thumb_url", "footer_icon"), _TEXT),
        **dict.fromkeys(("callback_id", "attachment_type", "from_url", "original_url", "service_name"), _TEXT),
        "footer": String(most=300),
        "color": _COLOR,
        "fields": ListOf(_FIELD),
        "mrkdwn_in": ListOf(_TEXT),
        "actions": ListOf(AnyObject()),
        "id": Number(),
    },
)


def check_message(payload: Mapping[str, object], *, update: bool = False) -> list[Problem]:
    """Problems for which Slack would refuse a message; empty where it may be sent.

    Looks at `text`, `markdown_text`, `blocks`, `attachments` and `metadata`; the other arguments of a method are
    checked elsewhere. An answer through a response_url (it has `response_type`, `replace_original` or
    `delete_original`) may repeat a block_id and carry any object as metadata, and one that deletes needs no content.
    """
    if name_of(payload) != "an object":
        return [Problem("", f"a message must be an object, not {name_of(payload)}", "invalid_arguments")]
    webhook = any(key in payload for key in _WEBHOOK)
    report = Report(MESSAGE, "invalid_blocks", unique_blocks=not webhook)
    _check_text(payload, report, TEXT_OF_UPDATE if update else TEXT_OF_POST)
    _check_markdown(payload, report)
    if _given(payload, "blocks"):
        _check_blocks(payload["blocks"], report)
    if _given(payload, "attachments"):
        _check_attachments(payload["attachments"], report)
        _check_number_of_blocks(payload, report)
    if _given(payload, "metadata"):
        _check_metadata(payload["metadata"], report, webhook=webhook)
    if not _has_content(payload) and payload.get("delete_original") is not True:
        report.add("text", "a message needs text, blocks or attachments", "no_text")
    return report.problems


def _given(payload: Mapping[str, object], key: str) -> bool:
    return payload.get(key) is not None


def _has_content(payload: Mapping[str, object]) -> bool:
    return any(payload.get(key) for key in ("text", "markdown_text", "blocks", "attachments"))


def _check_text(payload: Mapping[str, object], report: Report, most: int) -> None:
    text = payload.get("text")
    if text is not None and not isinstance(text, str):
        report.add("text", f"expected text, not {name_of(text)}", "invalid_arguments")
    elif text is not None and len(text) > most:
        report.add("text", f"at most {most} characters, not {len(text)}", "msg_too_long")


def _check_markdown(payload: Mapping[str, object], report: Report) -> None:
    text = payload.get("markdown_text")
    if text is None:
        return
    if payload.get("text") or payload.get("blocks"):
        report.add("markdown_text", "can't be used together with text or blocks", "markdown_text_conflict")
    if not isinstance(text, str):
        report.add("markdown_text", f"expected text, not {name_of(text)}", "invalid_arguments")
    elif len(text) > MARKDOWN_TEXT:
        report.add("markdown_text", f"at most {MARKDOWN_TEXT} characters, not {len(text)}", "msg_too_long")


def _check_blocks(blocks: object, report: Report, path: str = "blocks", code: str = "invalid_blocks_format") -> None:
    if not is_list(blocks):
        report.add(path, f"expected a list of blocks, not {name_of(blocks)}", code)
        return
    check_blocks(blocks, path, report, BLOCKS_OF_MESSAGE)
    if report.text > TEXT_OF_BLOCKS:
        words = f"at most {TEXT_OF_BLOCKS} characters in all blocks, not {report.text}"
        report.add(path, words, "msg_blocks_too_long")


def _check_attachments(attachments: object, report: Report) -> None:
    if not isinstance(attachments, (list, tuple)):
        words = f"expected a list of attachments, not {name_of(attachments)}"
        report.add("attachments", words, "invalid_attachments")
        return
    if len(attachments) > ATTACHMENTS:
        words = f"at most {ATTACHMENTS} attachments, not {len(attachments)}"
        report.add("attachments", words, "too_many_attachments")
    for index, each in enumerate(attachments):
        _check_attachment(each, f"attachments[{index}]", report)


def _check_number_of_blocks(payload: Mapping[str, object], report: Report) -> None:
    """Blocks in attachments count towards the limit of the message."""
    attachments = payload["attachments"]
    holders = [payload, *(attachments if isinstance(attachments, (list, tuple)) else [])]
    lists = [each.get("blocks") for each in holders if isinstance(each, Mapping)]
    counts = [len(blocks) for blocks in lists if isinstance(blocks, (list, tuple))]
    if sum(counts) > BLOCKS_OF_MESSAGE >= max(counts):
        words = f"at most {BLOCKS_OF_MESSAGE} blocks in a message and its attachments, not {sum(counts)}"
        report.add("attachments", words, "invalid_attachments")


def _check_attachment(attachment: object, path: str, report: Report) -> None:
    outer, report.code = report.code, "invalid_attachments"
    legacy = attachment
    if isinstance(attachment, Mapping):
        legacy = {key: value for key, value in attachment.items() if key not in ("blocks", "ts")}
    _ATTACHMENT.check(legacy, path, report)
    if isinstance(attachment, Mapping) and not any(attachment.get(key) for key in _SHOWN):
        report.add(path, "an attachment needs blocks, text or a fallback")
    if isinstance(attachment, Mapping):
        _check_blocks_of_attachment(attachment, path, report)
    report.code = outer


def _check_blocks_of_attachment(attachment: Mapping[str, object], path: str, report: Report) -> None:
    """Slack has one word for all mistakes in an attachment, those in its blocks too."""
    if "ts" in attachment and (
        isinstance(attachment["ts"], bool) or not isinstance(attachment["ts"], (int, float, str))
    ):
        report.add(join(path, "ts"), "expected a Unix timestamp")
    if "blocks" in attachment:
        before, report.text = report.text, 0
        with report.own_blocks():
            _check_blocks(attachment["blocks"], report, join(path, "blocks"), report.code)
        report.text = before
    if attachment.get("blocks"):
        for key in attachment:
            if key not in _BESIDE_BLOCKS:
                report.add(join(path, str(key)), "invalid_keys: an attachment with blocks has only color and fallback")


def _check_metadata(metadata: object, report: Report, *, webhook: bool) -> None:
    code = "invalid_metadata_format"
    if not isinstance(metadata, Mapping):
        report.add("metadata", f"expected an object, not {name_of(metadata)}", code)
        return
    if webhook or not metadata:  # {} takes the metadata away
        return
    for key in metadata:
        if key not in ("event_type", "event_payload", "entities"):
            report.add(
                join("metadata", str(key)), "metadata can only have event_type, event_payload and entities", code
            )
    if not isinstance(metadata.get("event_type"), str) or not metadata["event_type"]:
        report.add("metadata.event_type", "expected the name of the event", code)
    if not isinstance(metadata.get("event_payload", {}), Mapping):
        report.add("metadata.event_payload", "expected an object", code)


def check_options(answer: Mapping[str, object]) -> list[Problem]:
    """Problems in the answer to a block_suggestion: its `options` or `option_groups`."""
    report = Report(MESSAGE, "invalid_arguments")
    both = {"options": ListOf(OPTION, most=100), "option_groups": ListOf(OPTION_GROUP, most=100)}
    rules = (not_together("options", "option_groups"), at_least_one("options", "option_groups"))
    shape("the answer", both, rules=rules).check(answer, "", report)
    return report.problems
