"""A debt file tolerates what it lists, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.debt import check_debt

UPDATE = "UPDATE_A_LIST_OF_THIS_TEST"


@pytest.fixture
def debt(tmp_path: Path) -> Path:
    path = tmp_path / "debt.txt"
    path.write_text("2 class Told\n1 module heard\n")
    return path


def test_the_offenders_of_the_list_pass(debt: Path) -> None:
    check_debt({"class Told": 2, "module heard": 1}, debt, UPDATE)


@pytest.mark.parametrize(
    ("offenders", "words"),
    [
        ({"class Told": 2, "module heard": 1, "module past": 1}, "new offender: module past"),
        ({"class Told": 3, "module heard": 1}, "new offender: class Told"),
        ({"class Told": 2}, "remove it from the list: module heard"),
        ({"class Told": 1, "module heard": 1}, "remove it from the list: class Told"),
    ],
)
def test_a_new_offender_and_one_that_is_gone_fail(offenders: dict[str, int], words: str, debt: Path) -> None:
    with pytest.raises(pytest.fail.Exception, match=words):
        check_debt(offenders, debt, UPDATE)


def test_the_variable_rewrites_the_list(debt: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(UPDATE, "1")
    check_debt({"module past": 1}, debt, UPDATE)
    assert debt.read_text() == "1 module past\n"
