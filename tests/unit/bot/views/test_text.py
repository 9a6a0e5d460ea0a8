"""Texts are cut where people would cut them, and say so."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.views.text import LONGEST_ERROR, error_text, escape, fit, in_span, inert, phrase_markup, unescape
from supervisor_core.common.errors import CommandText, SupervisorError


def test_a_text_is_cut_after_a_line_or_a_word_where_little_is_lost() -> None:
    assert fit("one line\nanother line that goes on", 20) == "one line … (cut)"
    assert fit("several words that go on and on", 24) == "several words … (cut)"
    assert fit("x" * 50, 18) == "x" * 10 + " … (cut)"


@pytest.mark.parametrize("limit", range(12, 20))
def test_an_entity_is_never_cut_in_two(limit: int) -> None:
    cut = fit(escape("&<>&<>&<>&<>"), limit).removesuffix(" … (cut)")
    assert cut.replace("&amp;", "").replace("&lt;", "").replace("&gt;", "") == ""


def test_an_accent_stays_with_its_letter() -> None:
    letter = "e\N{COMBINING ACUTE ACCENT}"
    cut = fit(letter * 20, 19).removesuffix(" … (cut)")
    assert cut == letter * (len(cut) // 2)
    assert cut


@given(st.text(), st.integers(min_value=0, max_value=60))
def test_a_fitted_text_never_exceeds_its_limit_and_is_whole_where_it_may_be(text: str, limit: int) -> None:
    fitted = fit(text, limit)
    assert len(fitted) <= limit
    assert (fitted == text) == (len(text) <= limit) or fitted == text[:limit]


@given(st.text())
def test_an_escaped_text_has_no_markup_and_comes_back_as_it_was(text: str) -> None:
    assert "<" not in escape(text)
    assert ">" not in escape(text)
    assert unescape(escape(text)) == text


@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        ("Read faster", "Read faster"),
        ("Rename foo_bar (was a_b).", "Rename `foo_bar` (was `a_b`)."),
        ("*two words* ~and~ _x_,", "`*two` `words*` `~and~` `_x_`,"),
        ("run `make` & <look>", "run 'make' &amp; &lt;look&gt;"),
    ],
)
def test_words_with_markers_are_set_as_code(typed: str, shown: str) -> None:
    assert inert(typed, 100) == shown


def test_data_in_a_sentence_or_an_error_is_not_styled_and_the_spaces_around_it_stay() -> None:
    phrase = ("paused by *a* _b_\n", CommandText("resume North"), " <!channel>")
    assert phrase_markup(phrase) == "paused by `*a*` `_b_`\n`/supervisor resume North` &lt;!channel&gt;"
    error = SupervisorError("No file `a b` in *x*.", remedy="Look at my_file.")
    assert error_text(error) == "No file 'a b' in `*x*`. Look at `my_file`."
    assert len(error_text(SupervisorError("a_b " * 5000))) <= LONGEST_ERROR


markers = st.text(alphabet="*_~`ab .,()<&\n'", max_size=60)


@given(st.text(max_size=60) | markers)
def test_nothing_in_foreign_text_is_styled_and_all_of_it_is_shown(text: str) -> None:
    shown = inert(text, 1000)
    outside = re.sub(r"`[^`]+`", "", shown)
    assert not set(outside) & set("*_~`<>")
    plain = unescape(re.sub(r"`([^`]+)`", r"\1", shown))
    assert plain == "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text).replace(
        "`", "'"
    )


@given(st.text(max_size=60) | markers)
def test_a_piece_of_code_never_ends_early(text: str) -> None:
    span = in_span(text, 40)
    assert re.fullmatch(r"`[^`]+`", span)
    assert not set(span) & set("<>")
