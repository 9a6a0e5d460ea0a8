"""Keys of the fleet: saved privately, read with care, and signatures that survive no change."""

from __future__ import annotations

import base64
import os
import stat
from pathlib import Path

import nkeys
import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor_core.common.errors import RefusedError
from supervisor_core.fleet.keys import KeyPair, KeyUnusable, verify

PAIR = KeyPair.new()
OTHER = KeyPair.new()


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
