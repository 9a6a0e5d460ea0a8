"""Checking a message: its text, blocks, attachments and metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slack_playground.blockkit.blocks import BLOCK, MARKDOWN_TEXT
from slack_playground.blockkit.kinds import (
    FLAG,
    ListOf,
    Number,
    Shape,
    String,
    at_least_one,
    join,
    name_of,
    not_together,
)
from slack_playground.blockkit.objects import OPTION, OPTION_GROUP
from slack_playground.blockkit.problems import MESSAGE, Problem, Report

TEXT_OF_POST = 40_000  # beyond this Slack cuts the text without a word
TEXT_OF_UPDATE = 4_000
BLOCKS_OF_MESSAGE = 50
TEXT_OF_BLOCKS = 13_200  # not published; where Slack has been seen to refuse
ATTACHMENTS = 100

_WEBHOOK = ("response_type", "replace_original", "delete_original")
_BESIDE_BLOCKS = ("blocks", "color", "fallback", "id")
_SHOWN = ("blocks", "fallback", "text", "pretext", "title", "author_name", "fields", "image_url", "thumb_url", "footer")
_FIELD = Shape("a field of an attachment", {"title": String(), "value": String(), "short": FLAG})


class _Timestamp:
    """The time of an attachment, as a number or as text."""

    def check(self, value: object, path: str, report: Report) -> None:
        if isinstance(value, bool) or not isinstance(value, (int, float, str)):
            report.add(path, "expected a Unix timestamp")


class _Blocks:
    """The blocks of a message, or of one of its attachments."""

    def check(self, value: object, path: str, report: Report) -> None:
        ListOf(BLOCK, most=BLOCKS_OF_MESSAGE).check(value, path, report)
        if report.text > TEXT_OF_BLOCKS:
            words = f"at most {TEXT_OF_BLOCKS} characters in all blocks, not {report.text}"
            report.add(path, words, "msg_blocks_too_long")


_ATTACHMENT = Shape(
    "an attachment",
    {
        **dict.fromkeys(("fallback", "pretext", "author_name", "author_link", "author_icon"), String()),
        **dict.fromkeys(("title", "title_link", "text", "image_url", "thumb_url", "footer_icon"), String()),
        **dict.fromkeys(("callback_id", "attachment_type", "from_url", "original_url"), String()),
        "footer": String(most=300),
        "color": String(pattern=r"good|warning|danger|#?([0-9A-Fa-f]{3}){1,2}", form="a color such as #2eb886"),
        "fields": ListOf(_FIELD),
        "mrkdwn_in": ListOf(String()),
        "id": Number(),
        "ts": _Timestamp(),
        "blocks": _Blocks(),
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
    given = {key: value for key, value in payload.items() if value is not None}
    _check_texts(given, report, TEXT_OF_UPDATE if update else TEXT_OF_POST)
    blocks, attachments = given.get("blocks", []), given.get("attachments", [])
    if isinstance(blocks, (list, tuple)):
        _Blocks().check(blocks, "blocks", report)
    else:
        report.add("blocks", f"expected a list of blocks, not {name_of(blocks)}", "invalid_blocks_format")
    if isinstance(attachments, (list, tuple)):
        _check_attachments(attachments, blocks, report)
    else:
        words = f"expected a list of attachments, not {name_of(attachments)}"
        report.add("attachments", words, "invalid_attachments")
    if "metadata" in given:
        _check_metadata(given["metadata"], report, webhook=webhook)
    content = any(given.get(key) for key in ("text", "markdown_text", "blocks", "attachments"))
    if not content and given.get("delete_original") is not True:
        report.add("text", "a message needs text, blocks or attachments", "no_text")
    return report.problems


def _check_texts(given: Mapping[str, object], report: Report, most_text: int) -> None:
    if "markdown_text" in given and (given.get("text") or given.get("blocks")):
        report.add("markdown_text", "can't be used together with text or blocks", "markdown_text_conflict")
    for key, most in (("text", most_text), ("markdown_text", MARKDOWN_TEXT)):
        text = given.get(key, "")
        if not isinstance(text, str):
            report.add(key, f"expected text, not {name_of(text)}", "invalid_arguments")
        elif len(text) > most:
            report.add(key, f"at most {most} characters, not {len(text)}", "msg_too_long")


def _check_attachments(attachments: Sequence[object], blocks: object, report: Report) -> None:
    """Slack has one word for all mistakes in an attachment, those in its blocks too."""
    if len(attachments) > ATTACHMENTS:
        words = f"at most {ATTACHMENTS} attachments, not {len(attachments)}"
        report.add("attachments", words, "too_many_attachments")
    report.code = "invalid_attachments"
    for index, attachment in enumerate(attachments):
        path = f"attachments[{index}]"
        report.text = 0
        with report.own_blocks():
            _ATTACHMENT.check(attachment, path, report)
        if not isinstance(attachment, Mapping):
            continue
        if not any(attachment.get(key) for key in _SHOWN):
            report.add(path, "an attachment needs blocks, text or a fallback")
        for key in attachment if attachment.get("blocks") else ():
            if key not in _BESIDE_BLOCKS:
                report.add(join(path, str(key)), "invalid_keys: an attachment with blocks has only color and fallback")
    # Blocks in attachments count towards the limit of the message.
    lists = [blocks, *(attachment.get("blocks") for attachment in attachments if isinstance(attachment, Mapping))]
    counts = [len(each) for each in lists if isinstance(each, (list, tuple))]
    if sum(counts) > BLOCKS_OF_MESSAGE >= max(counts):
        words = f"at most {BLOCKS_OF_MESSAGE} blocks in a message and its attachments, not {sum(counts)}"
        report.add("attachments", words)


def _check_metadata(metadata: object, report: Report, *, webhook: bool) -> None:
    code = "invalid_metadata_format"
    if not isinstance(metadata, Mapping):
        report.add("metadata", f"expected an object, not {name_of(metadata)}", code)
    elif metadata and not webhook:  # {} removes the metadata
        if not isinstance(metadata.get("event_type"), str) or not metadata["event_type"]:
            report.add("metadata.event_type", "expected the name of the event", code)
        if not isinstance(metadata.get("event_payload", {}), Mapping):
            report.add("metadata.event_payload", "expected an object", code)


def check_options(answer: Mapping[str, object]) -> list[Problem]:
    """Problems in the answer to a block_suggestion: its `options` or `option_groups`."""
    report = Report(MESSAGE, "invalid_arguments")
    both = {"options": ListOf(OPTION, most=100), "option_groups": ListOf(OPTION_GROUP, most=100)}
    rules = (not_together("options", "option_groups"), at_least_one("options", "option_groups"))
    Shape("the answer", both, rules=rules).check(answer, "", report)
    return report.problems
