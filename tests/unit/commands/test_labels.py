"""Labels: which words may be one, what is suggested instead, and the audit label they end up in."""

from __future__ import annotations

import pytest

from supervisor_core.commands.labels import audit_label, clean_label, validate_label
from supervisor_core.common.errors import UsageError


@pytest.mark.parametrize("label", ["hotfix", "impl HT acquire", "a-b_c 9", "x" * 100, " padded "])
def test_letters_digits_spaces_hyphens_and_underscores_make_a_label(label: str) -> None:
    assert validate_label(label) == (True, "")
    assert clean_label(label) == label.strip()


@pytest.mark.parametrize(
    "label", ["a\n", "\na", "a\tb", "a\rb", "tab\t", "a\u00a0b", "a\u2028b", "a.b", "ä", "\u0661", "\u212a"]
)
def test_anything_else_is_refused_and_named(label: str) -> None:
    ok, problem = validate_label(label)
    odd = next(character for character in label if character not in "abt")
    assert not ok
    assert repr(odd) in problem
    with pytest.raises(UsageError):
        clean_label(label)


def test_a_label_of_more_than_a_hundred_characters_is_refused_with_its_length() -> None:
    ok, problem = validate_label("x" * 101)
    assert not ok
    assert "101" in problem


def test_the_audit_label_says_who_and_then_what() -> None:
    assert audit_label("operator", "slack:T1/U1", "hotfix") == "operator - hotfix"
    assert audit_label("operator", "slack:T1/U1", None) == "operator"


def test_the_audit_label_falls_back_to_the_user_id() -> None:
    assert audit_label("🙂", "slack:T1/U0OPER", "x") == "U0OPER - x"


def test_a_name_can_not_forge_the_separator() -> None:
    assert audit_label("ann - approved by bob", "cli:ann", "x") == "ann approved by bob - x"


def test_a_long_name_is_cut_and_the_label_never_is() -> None:
    assert audit_label("n" * 60, "cli:n", "y" * 100) == f"{'n' * 50} - {'y' * 100}"


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("Zoë Łuczak", "Zoe Luczak"),
        ("Jose\u0301 Ørsted", "Jose Orsted"),
        ("Иван Петров", "Ivan Petrov"),
        ("Γιώργος", "Giorgos"),
        ("O\u2019Brien 🙂", "O'Brien"),
        ("Anna (ops)", "Anna (ops)"),
        ("王小明", "WangXiaoMing"),
        ("---", "U0OPER"),
        ("\u202e", "U0OPER"),
    ],
)
def test_a_name_is_written_in_ascii_letters(name: str, plain: str) -> None:
    assert audit_label(name, "slack:T1/U0OPER", "x") == f"{plain} - x"
