"""Keys and signed messages: saved privately, and only what the hub signed for this host and of this kind counts."""

from __future__ import annotations

import base64
import json
import os
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import nkeys
import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor_core.commands.command import Command, Issuer
from supervisor_core.common.errors import RefusedError
from supervisor_core.fleet.keys import (
    COMMAND,
    QUESTION,
    CommandMessage,
    InvalidMessage,
    KeyPair,
    KeyUnusable,
    read_command,
    read_signed,
    signed,
    verify,
)

PAIR = KeyPair.new()
OTHER = KeyPair.new()
NOW = datetime(2026, 11, 19, 12, tzinfo=UTC)


def test_a_key_is_its_owner_s_alone_and_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "fleet" / "host.seed"
    with pytest.raises(KeyUnusable, match="supervisor fleet join"):
        KeyPair.read(path)
    made = KeyPair.create(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(RefusedError, match="isn't replaced"):
        KeyPair.create(path)
    assert KeyPair.read(path).public_key == made.public_key
    path.chmod(0o640)
    with pytest.raises(KeyUnusable, match="mode 0640"):
        KeyPair.read(path)


@pytest.mark.parametrize("content", [b"", b"SU", b"\xff" * 60, b"U" + b"A" * 55, b"SUAA" + b"A" * 54])
def test_a_damaged_key_is_named_without_its_content(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "host.seed").write_bytes(content)
    (tmp_path / "host.seed").chmod(0o600)
    with pytest.raises(KeyUnusable) as caught:
        KeyPair.read(tmp_path / "host.seed")
    assert str(tmp_path / "host.seed") in str(caught.value)


def test_a_key_doesn_t_show_its_secret() -> None:
    assert PAIR.seed not in f"{PAIR!r} {PAIR} {vars(PAIR)['_pair']!r}"


def test_a_signature_holds_for_its_key_and_bytes_alone() -> None:
    signature = PAIR.sign(b"restart OrionMX")
    assert verify(PAIR.public_key, b"restart OrionMX", signature)
    assert not verify(PAIR.public_key, b"restart OrionMX ", signature)
    assert not verify(OTHER.public_key, b"restart OrionMX", signature)
    assert not verify(PAIR.public_key, b"restart OrionMX", OTHER.sign(b"restart OrionMX"))


def test_what_a_server_has_signed_at_a_connection_is_no_signature_of_a_command() -> None:
    nonce = nkeys.from_seed(bytearray(PAIR.seed.encode())).sign(b"restart OrionMX")
    assert not verify(PAIR.public_key, b"restart OrionMX", base64.urlsafe_b64encode(nonce).decode())


@given(key=st.text() | st.just(PAIR.public_key), data=st.binary(), signature=st.text() | st.binary().map(repr))
def test_junk_is_no_signature_and_no_error(key: str, data: bytes, signature: str) -> None:
    assert not verify(key, data, signature)


def test_a_key_with_a_wrong_checksum_is_no_key() -> None:
    signature = PAIR.sign(b"x")
    changed = PAIR.public_key[:-1] + ("A" if PAIR.public_key[-1] != "A" else "B")
    assert not verify(changed, b"x", signature)
    assert not verify(PAIR.public_key, b"x", base64.urlsafe_b64encode(os.urandom(64)).decode())


def message(host: str = "web-1") -> CommandMessage:
    command = Command("restart", "fetcher", ("fetcher",), {"keep_going": True}, "hotfix")
    issued = command.issued(Issuer("slack:T1/U1", "Anna"), "task_1")
    return CommandMessage(host, issued, "slack", NOW, NOW + timedelta(minutes=10), ({"id": "slack:T1/U2"},))


def test_a_command_arrives_as_it_was_sent() -> None:
    assert read_command(message().encode(PAIR), "web-1", PAIR.public_key) == message()


def test_a_command_of_somebody_else_or_for_another_host_and_a_question_are_refused() -> None:
    for data, reason in (
        (message().encode(OTHER), "isn't signed by the hub"),
        (message("web-2").encode(PAIR), "for web-2"),
        (signed(QUESTION, "web-1", {}, PAIR), "question"),
        (signed(COMMAND, "web-1", {"command": "teleport"}, PAIR), "Update the supervisor"),
    ):
        with pytest.raises(InvalidMessage, match=reason):
            read_command(data, "web-1", PAIR.public_key)


@pytest.mark.parametrize("field", ["task_id", "workers", "params", "issuer", "approvals", "start_before", "door"])
def test_an_altered_command_is_refused(field: str) -> None:
    envelope = json.loads(message().encode(PAIR))
    inner = json.loads(envelope["signed"])
    inner["body"][field] = "altered"
    envelope["signed"] = json.dumps(inner)
    with pytest.raises(InvalidMessage, match="isn't signed by the hub"):
        read_command(json.dumps(envelope).encode(), "web-1", PAIR.public_key)


@given(st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
def test_any_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidMessage):
        read_signed(COMMAND, data, "web-1", PAIR.public_key)


@given(
    st.dictionaries(
        st.sampled_from(["signed", "signature"]), st.none() | st.integers() | st.text() | st.lists(st.integers())
    )
)
def test_any_other_document_is_refused(document: dict[str, object]) -> None:
    with pytest.raises(InvalidMessage):
        read_signed(COMMAND, json.dumps(document).encode(), "web-1", PAIR.public_key)
