"""Signed messages: only what the hub signed, for this host and of this kind, counts."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor_core.commands.command import Command, Issuer
from supervisor_core.fleet import keys
from supervisor_core.fleet.keys import KeyPair
from supervisor_core.fleet.signing import (
    COMMAND,
    QUESTION,
    CommandMessage,
    InvalidMessage,
    read_command,
    read_signed,
    signed,
)

HUB, OTHER = KeyPair.new(), KeyPair.new()
NOW = datetime(2026, 11, 19, 12, tzinfo=UTC)
verify = partial(keys.verify, HUB.public_key)


def message(host: str = "web-1") -> CommandMessage:
    command = Command("restart", "fetcher", ("fetcher",), {"keep_going": True}, "hotfix")
    issued = command.issued(Issuer("slack:T1/U1", "Anna"), "task_1")
    return CommandMessage(host, issued, "slack", NOW, NOW + timedelta(minutes=10), ({"id": "slack:T1/U2"},))


def test_a_command_arrives_as_it_was_sent() -> None:
    assert read_command(message().encode(HUB), "web-1", verify) == message()


def test_a_command_of_somebody_else_or_for_another_host_and_a_question_are_refused() -> None:
    for data, reason in (
        (message().encode(OTHER), "isn't signed by the hub"),
        (message("web-2").encode(HUB), "for web-2"),
        (signed(QUESTION, "web-1", {}, HUB), "question"),
        (signed(COMMAND, "web-1", {"command": "teleport"}, HUB), "Update the supervisor"),
    ):
        with pytest.raises(InvalidMessage, match=reason):
            read_command(data, "web-1", verify)


@pytest.mark.parametrize("field", ["task_id", "workers", "params", "issuer", "approvals", "start_before", "door"])
def test_an_altered_command_is_refused(field: str) -> None:
    envelope = json.loads(message().encode(HUB))
    inner = json.loads(envelope["signed"])
    inner["body"][field] = "altered"
    envelope["signed"] = json.dumps(inner)
    with pytest.raises(InvalidMessage, match="isn't signed by the hub"):
        read_command(json.dumps(envelope).encode(), "web-1", verify)


@given(st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
def test_any_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidMessage):
        read_signed(COMMAND, data, "web-1", verify)


@given(
    st.dictionaries(
        st.sampled_from(["signed", "signature"]), st.none() | st.integers() | st.text() | st.lists(st.integers())
    )
)
def test_any_other_document_is_refused(document: dict[str, object]) -> None:
    with pytest.raises(InvalidMessage):
        read_signed(COMMAND, json.dumps(document).encode(), "web-1", verify)
