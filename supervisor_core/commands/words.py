"""A line of text as words: quotes, Slack's markup, and the quotes and dashes of phones. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from supervisor_core.commands.grammar_errors import GrammarError

MAX_TEXT = 2000  # characters; a command with everything in it has a few hundred
SHOWN = 40  # characters of somebody's word that an error repeats

_SPACES = str.maketrans({"\N{NO-BREAK SPACE}": " ", "\N{NARROW NO-BREAK SPACE}": " "})

_OPENS = "'\N{LEFT SINGLE QUOTATION MARK}"
_CLOSES = "'\N{RIGHT SINGLE QUOTATION MARK}"
_QUOTE = '["“”„]'
# What Slack puts in angle brackets: <@U012|name>, <#C1|ops>, <!here>, <https://example.org|text>. A `<` that
# somebody typed arrives as &lt;, so there is no confusing the two.
_THING = r"<(?:[@#!]|[A-Za-z][A-Za-z0-9+.-]*:)[^<>]*>"
_ENTITY = r"&(?:amp|lt|gt);"
# Inside double quotes two of them in a row are one that is meant.
_TWICE = '""|““|””|„„'
_PIECE = re.compile(
    rf"(?P<thing>{_THING})|(?P<entity>{_ENTITY})"
    rf"|{_QUOTE}(?P<inside>(?:{_THING}|{_TWICE}|[^\"“”„])*+){_QUOTE}"
    r"|(?P<plain>[^ <&\"“”„]+|[<&])"
)
_INSIDE = re.compile(rf"(?P<thing>{_THING})|(?P<entity>{_ENTITY})|(?P<twice>{_TWICE})")
_NEVER_BARE = re.compile(f" |{_QUOTE}")
_SINGLE = re.compile(rf"[{_OPENS}](?P<inside>.*?)[{_CLOSES}](?= |$)")
_SINGLE_END = re.compile(rf"[{_CLOSES}](?= |$)")
_DASH = re.compile("\\A[\N{EM DASH}\N{EN DASH}](?=[^\\W\\d_])")
_NOTE = re.compile("(?:--|[\N{EM DASH}\N{EN DASH}])(?:\\s+(?P<text>.*)|$)", re.DOTALL)
_MENTION = re.compile(r"<@([A-Za-z0-9]+)(?:\|[^<>]*)?>")
_ENTITIES = {"&amp;": "&", "&lt;": "<", "&gt;": ">"}
_ENTITY_START = re.compile(r"&(?=(?:amp|lt|gt);)")
_TAKEN_FOR_SLACKS = re.compile(r"&(?=(?:amp|lt|gt);)|<(?=[@#!A-Za-z])")
_BARE = re.compile(rf"[^\W_](?:[\w.,:;/+-]|(?<=\w)[{_CLOSES}](?=\w))*")


@dataclass(frozen=True, slots=True)
class Word:
    """One word as it is meant, and as it stood there. A quoted one is text and nothing else."""

    text: str
    source: str
    quoted: bool = False
    mention: str = ""
    """The user id, where the word is a mention of somebody."""
    is_note: bool = False
    """It's the text after ` -- `, which is always the last word."""


def split_words(text: str) -> tuple[Word, ...]:
    """The words of one line and its note; `GrammarError` for several lines, or a quote that isn't closed."""
    line = _limited(text)
    last_single = max((match.start() for match in _SINGLE_END.finditer(line)), default=-1)
    words: list[Word] = []
    position = 0
    while position < len(line):
        if line[position] == " ":
            position += 1
            continue
        if note := _NOTE.match(line, position):
            _check_printable(line[:position])
            return (*words, *_note(note["text"] or ""))
        word = _single(line, position, last_single) or _word(line, position)
        words.append(word)
        position += len(word.source)
    _check_printable(line)
    return tuple(words)


def _limited(text: str) -> str:
    line = text.strip().translate(_SPACES)
    if len(line) > MAX_TEXT:
        raise GrammarError(f"A command can have up to {MAX_TEXT:,} characters; this one has {len(line):,}.")
    return line


def _check_printable(line: str) -> None:
    odd = next((character for character in line if not character.isprintable()), None)
    if odd is None:
        return
    what = {"\n": "a line break", "\r": "a line break", "\t": "a tab"}.get(odd, f"the character U+{ord(odd):04X}")
    raise GrammarError(f"A command can't contain {what}.")


def _note(text: str) -> tuple[Word, ...]:
    said = text.strip()
    return (Word(_visible(said, doubled=False), f"-- {said}", quoted=True, is_note=True),) if said else ()


def _single(line: str, start: int, last_end: int) -> Word | None:
    """The word in single quotes that starts here, if one does: an apostrophe is none.

    `last_end` is where the last one could close, so that a line of opening quotes is not searched for each.
    """
    if line[start] not in _OPENS or start >= last_end:
        return None
    match = _SINGLE.match(line, start)
    if match is None:
        return None
    return Word(_visible(match["inside"], doubled=False), match[0], quoted=True)


def _word(line: str, start: int) -> Word:
    position, parts, quoted = start, [], False
    while position < len(line) and line[position] != " ":
        match = _PIECE.match(line, position)
        if match is None:
            raise GrammarError(f"The closing double quote is missing: {excerpt(line[position:])}.")
        if match["inside"] is not None:
            quoted = True
            parts.append(_visible(match["inside"], doubled=True))
        else:
            parts.append(_visible(match[0], doubled=False))
        position = match.end()
    source, text = line[start:position], "".join(parts)
    if not quoted:
        text = _DASH.sub("--", text)
    # What a link shows may have spaces and quotes in it, which nobody can type into a bare word.
    quoted = quoted or _NEVER_BARE.search(text) is not None
    mention = _MENTION.fullmatch(source)
    return Word(text, source, quoted, mention[1] if mention else "")


def _visible(text: str, *, doubled: bool) -> str:
    """The text as Slack shows it. Entities are resolved once: `&amp;lt;` is somebody's `&lt;`."""

    def replaced(match: re.Match[str]) -> str:
        if match["thing"]:
            return _thing(match["thing"][1:-1])
        if match["entity"]:
            return _ENTITIES[match["entity"]]
        return match[0][0] if doubled else match[0]

    return _INSIDE.sub(replaced, text)


def _thing(body: str) -> str:
    target, _, words = body.partition("|")
    sigil = target[0]
    if sigil == "!":
        text = words or f"@{target[1:]}"
    elif sigil in "@#":
        text = sigil + (words.removeprefix(sigil) or target[1:])
    else:
        text = words or target.removeprefix("mailto:")
    return re.sub(_ENTITY, lambda match: _ENTITIES[match[0]], text)


def excerpt(text: str) -> str:
    """Quote a person's words in an error, cut to the part that helps."""
    return f"“{text if len(text) <= SHOWN else text[: SHOWN - 1] + '…'}”"


def quote(text: str) -> str:
    """The text in double quotes, so that it reads as one word of exactly these characters."""
    return '"' + escape(re.sub(f"({_QUOTE})", r"\1\1", text)) + '"'


def escape(text: str) -> str:
    """The text with those characters as entities that would be taken for something of Slack's."""
    return _TAKEN_FOR_SLACKS.sub(lambda match: "&amp;" if match[0] == "&" else "&lt;", text)


def escape_entities(text: str) -> str:
    """A text that isn't from Slack, such as `&lt;` in a shell, so that it's read as it is."""
    return _ENTITY_START.sub("&amp;", text)


def bare_or_quoted(text: str) -> str:
    """Words that mean themselves as they are; anything else in double quotes."""
    return text if all(_BARE.fullmatch(word) for word in text.split(" ")) else quote(text)


def join_words(words: Iterable[Word]) -> str:
    return " ".join(word.source for word in words)


def with_word(words: Sequence[Word], position: int, text: str) -> str:
    """The words as they stood there, with another one in this position."""
    return " ".join(text if index == position else word.source for index, word in enumerate(words))
