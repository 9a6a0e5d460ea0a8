"""Words: quotes, Slack's brackets and entities, phones' dashes, and lines that are none."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supervisor_core.commands.grammar_errors import GrammarError
from supervisor_core.commands.words import MAX_TEXT, bare_or_quoted, quote, split_words
from tests.support.sampling import examples


def _texts(text: str) -> list[str]:
    return [word.text for word in split_words(text)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        (" \t\n ", []),
        ("a  b ", ["a", "b"]),
        ("a\u00a0b\u202fc", ["a", "b", "c"]),
        ('"a b" c', ["a b", "c"]),
        ("“a b” c", ["a b", "c"]),
        ("„a b“ c", ["a b", "c"]),
        ('“a b" c', ["a b", "c"]),
        ('a"b c"d', ["ab cd"]),
        ('""', [""]),
        ('""a""', ["a"]),
        ('"a""b"', ['a"b']),
        ('"""a"""', ['"a"']),
        ('"it\'s"', ["it's"]),
        ("'a b' c", ["a b", "c"]),
        ("\u2018a b\u2019 c", ["a b", "c"]),
        ("'say \"hi\"'", ['say "hi"']),
        ("it's", ["it's"]),
        ("it's the dogs' day", ["it's", "the", "dogs'", "day"]),
        ("'tis late", ["'tis", "late"]),
        ("'", ["'"]),
        ("rock 'n' roll", ["rock", "n", "roll"]),
        ("x'a b'", ["x'a", "b'"]),
        ("—reset", ["--reset"]),
        ("\u2013reset", ["--reset"]),
        ("--reset", ["--reset"]),
        ("a—b —3", ["a—b", "—3"]),
        ('"—reset"', ["—reset"]),
        ("a &amp; b &lt;c&gt;", ["a", "&", "b", "<c>"]),
        ("&amp;lt; &amp;amp;", ["&lt;", "&amp;"]),
        ("&nbsp; &quot;", ["&nbsp;", "&quot;"]),
        ('"&amp;lt;"', ["&lt;"]),
        ("<@U012>", ["@U012"]),
        ("<@U012|ann>", ["@ann"]),
        ("<#C1|ops> <#C2>", ["#ops", "#C2"]),
        ("<!here> <!subteam^S1|@ops>", ["@here", "@ops"]),
        ("<http://w.example|w.example>", ["w.example"]),
        ("<https://x/?a=1&amp;b=2>", ["https://x/?a=1&b=2"]),
        ("<mailto:a@b.c|a@b.c> <mailto:d@e.f>", ["a@b.c", "d@e.f"]),
        ("<mailto:>", [""]),
        ("a<b <c> <", ["a<b", "<c>", "<"]),
        ("(<http://x|x>)", ["(x)"]),
    ],
)
def test_a_line_is_split_as_its_writer_meant_it(text: str, words: list[str]) -> None:
    assert _texts(text) == words


@pytest.mark.parametrize("text", ['"a', 'a"', "“a", 'b "a"" c', '"', '5" disk', 'a "b" "c'])
def test_a_double_quote_that_does_not_end_is_an_error_that_says_so(text: str) -> None:
    with pytest.raises(GrammarError, match="double quote is missing"):
        split_words(text)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("a\nb", "line break"),
        ("a\r\nb", "line break"),
        ("a\tb", "tab"),
        ("a\0b", r"U\+0000"),
        ("a\x1bb", r"U\+001B"),
        ("a\u2028b", r"U\+2028"),
        ("a\u200bb", r"U\+200B"),
        ("a\u202eb", r"U\+202E"),
        ("a\ud800b", r"U\+D800"),
    ],
)
def test_a_command_is_one_printable_line(text: str, name: str) -> None:
    with pytest.raises(GrammarError, match="A command can't contain") as caught:
        split_words(text)
    with pytest.raises(GrammarError, match=name):
        raise caught.value


def test_a_text_that_is_far_too_long_is_an_error_and_not_work() -> None:
    assert _texts("x" * MAX_TEXT)
    with pytest.raises(GrammarError, match="2,000"):
        split_words("x" * (MAX_TEXT + 1))


def test_a_mention_keeps_the_id_of_whom_it_mentions() -> None:
    assert [word.mention for word in split_words("<@U012|Ann Lee> <@U013> @ann x<@U1>")] == [
        "U012",
        "U013",
        "",
        "",
    ]


@given(st.text(alphabet="ab\"'“”„\u2018\u2019 &;<>@#!:|ampltg—-*x", max_size=40))
@settings(max_examples=examples(300))
def test_any_quoted_text_reads_as_one_word_of_exactly_these_characters(text: str) -> None:
    (word,) = split_words(quote(text))
    assert (word.text, word.quoted) == (text, True)


@given(st.text(alphabet="abö\"'“\u2019 &;<>@:amp—-1_.", max_size=30).map(lambda text: " ".join(text.split(" "))))
@settings(max_examples=examples(300))
def test_text_is_left_bare_only_where_it_reads_as_itself(text: str) -> None:
    assert " ".join(_texts(bare_or_quoted(text))) == text


@pytest.mark.parametrize(
    ("text", "words", "note"),
    [
        ("a -- b c", ["a"], "b c"),
        ("a \N{EM DASH} b", ["a"], "b"),
        ("a \N{EN DASH} b", ["a"], "b"),
        ("-- b", [], "b"),
        ("a -- b -- c", ["a"], "b -- c"),
        ('a -- "b', ["a"], '"b'),
        ('"a -- b"', ["a -- b"], None),
        ("a --", ["a"], None),
        ("a--b --c", ["a--b", "--c"], None),
        ("a -- &lt;b&gt; <@U1|ann>", ["a"], "<b> @ann"),
    ],
)
def test_all_that_follows_two_hyphens_is_one_word(text: str, words: list[str], note: str | None) -> None:
    found = split_words(text)
    assert [word.text for word in found if not word.is_note] == words
    assert next((word.text for word in found if word.is_note), None) == note
