"""The head of the audit chain outside the ledger: it goes forward, survives trouble, and is private."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from supervisor_core.host.descriptors import UnreadableFileError
from supervisor_core.storage.audit.chain import HEAD_FILE, ChainHead, HeadFile
from tests.support.programs.warm import forked


def head(number: int, supervisor_id: str = "Host") -> ChainHead:
    return ChainHead(supervisor_id, number, f"{number:064x}")


def test_it_only_goes_forward(tmp_path: Path) -> None:
    file = HeadFile(tmp_path)
    assert file.read("Host") is None
    for number in (1, 5, 3):
        file.keep(head(number))
    assert HeadFile(tmp_path).read("Host") == head(5)
    assert (tmp_path / HEAD_FILE).stat().st_mode & 0o777 == 0o600


def test_each_chain_has_its_own(tmp_path: Path) -> None:
    file = HeadFile(tmp_path)
    file.keep(head(5, "One"))
    file.keep(head(2, "Two"))
    assert file.all() == [head(5, "One"), head(2, "Two")]
    assert file.read("Three") is None


@pytest.mark.parametrize("content", [b"", b"{", b"[]"])
def test_one_that_can_not_be_read_is_said_and_not_written_over(tmp_path: Path, content: bytes) -> None:
    (tmp_path / HEAD_FILE).write_bytes(content)
    file = HeadFile(tmp_path)
    with pytest.raises(UnreadableFileError):
        file.read("Host")
    file.keep(head(6))
    assert (tmp_path / HEAD_FILE).read_bytes() == content


@pytest.mark.parametrize(
    "content", [b'{"Host": 7}', b'{"Host": {"audit_id": "5", "hash": "x"}}', b'{"Host": {"audit_id": 5}}']
)
def test_what_is_no_head_is_as_good_as_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / HEAD_FILE).write_bytes(content)
    assert HeadFile(tmp_path).read("Host") is None


def test_a_place_that_can_not_be_written_is_said_and_is_no_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("supervisor_core"), "propagate", True)
    HeadFile(tmp_path / "nowhere").keep(head(1))
    assert "the head of the audit trail couldn't be saved" in caplog.text


def keep_many(folder: Path, numbers: list[int]) -> None:
    for number in numbers:
        HeadFile(folder).keep(head(number))


def test_of_many_processes_the_newest_wins(tmp_path: Path) -> None:
    context = forked()
    processes = [context.Process(target=keep_many, args=(tmp_path, list(range(first, 60, 3)))) for first in range(1, 4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(30)
        assert process.exitcode == 0
    assert json.loads((tmp_path / HEAD_FILE).read_text())["Host"]["audit_id"] == 59
