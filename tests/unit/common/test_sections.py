"""Sections of a document: checked as a whole, and frozen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import pytest

from supervisor_core.common.sections import (
    BeforeValidator,
    Field,
    Invalid,
    SecretStr,
    Section,
    ValidationError,
)


def even(value: object) -> int:
    if not isinstance(value, int) or value % 2:
        raise Invalid("must be even")
    return value


def beside(value: str, context: Mapping[str, Any]) -> str:
    return f"{context['folder']}/{value}"


Even = Annotated[int, BeforeValidator(even)]
Place = Annotated[str, BeforeValidator(beside, context=True)]


class Inner(Section):
    number: Even = Field(default=2)
    place: Place = Field(default="usual")


class Outer(Section):
    inner: Inner = Field(default_factory=Inner)
    start: Even = Field(alias="from")
    many: tuple[Inner, ...] = Field(default=())
    named: Mapping[str, Even] = Field(default_factory=dict)
    secret: SecretStr = Field(default=SecretStr(""))
    note: str = "none"

    def check_values(self) -> None:
        if self.start < 0:
            raise Invalid("must start later")


CONTEXT = {"folder": "/etc"}


def flaws_of(document: object) -> list[tuple[str, tuple[str | int, ...]]]:
    with pytest.raises(ValidationError) as caught:
        Outer.model_validate(document, context=CONTEXT)
    return [(each.kind, each.place) for each in caught.value.flaws]


def test_everything_wrong_is_found_at_once_with_its_place() -> None:
    document = {"many": [{"number": 3}, {"nmber": 4}, 5], "named": {"a": 1, "b": 2}, "other": 1}
    assert flaws_of(document) == [
        ("missing", ("from",)),
        ("said", ("many", 0, "number")),
        ("extra", ("many", 1, "nmber")),
        ("section", ("many", 2)),
        ("said", ("named", "a")),
        ("extra", ("other",)),
    ]


@pytest.mark.parametrize(
    ("document", "kind", "place"),
    [
        ([], "section", ()),
        ({"from": -2}, "said", ()),
        ({"from": 2, "many": {}}, "list", ("many",)),
        ({"from": 2, "named": []}, "section", ("named",)),
        ({"from": 2, "named": {1: 2}}, "value", ("named", 1)),
    ],
)
def test_a_wrong_shape_is_found(document: object, kind: str, place: tuple[str | int, ...]) -> None:
    assert flaws_of(document) == [(kind, place)]


def test_defaults_are_checked_with_the_context_also_in_an_empty_or_missing_section() -> None:
    for document in ({"from": 2}, {"from": 2, "inner": None}):
        found = Outer.model_validate(document, context=CONTEXT)
        assert (found.inner.number, found.inner.place, found.note) == (2, "/etc/usual", "none")
    assert found.model_fields_set == {"start", "inner"}


def test_a_section_never_changes_and_its_copy_does() -> None:
    found = Outer.model_validate({"from": 2}, context=CONTEXT)
    with pytest.raises(ValueError, match="Outer is frozen"):
        found.start = 4
    copy = found.model_copy(update={"start": 4})
    assert (found.start, copy.start, copy == found, copy.inner is found.inner) == (2, 4, False, True)
    assert Outer.model_validate({"from": 4}, context=CONTEXT) == copy


def test_a_secret_is_shown_nowhere() -> None:
    found = Outer.model_validate({"from": 2, "secret": "hunter2", "named": {"a": 2}}, context=CONTEXT)
    assert found.secret.get_secret_value() == "hunter2"
    assert "hunter2" not in f"{found} {found!r} {found.model_dump()}"
    assert found.model_dump()["named"] == {"a": 2}
