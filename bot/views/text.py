"""Text in Slack's markup: escaped, shortened, with moments and people as Slack shows them. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from supervisor_core.commands.command import REPORTED, Issuer
from supervisor_core.commands.phrases import Part, Phrase, name_of, render_phrase
from supervisor_core.common.errors import CommandText, Identifier, SupervisorError
from supervisor_core.common.text import one_line
from supervisor_core.common.times import replace_timestamps

CUT = " … (cut)"


def escape(text: str) -> str:
    """A text that Slack shows as it stands: no mention, link or broadcast in it comes alive.

    `*`, `_`, `~` and backticks can't be escaped in mrkdwn: for text that isn't ours there is `inert`.
    """
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


_PUNCTUATION = ".,;:!?()[]\"'"
_MARKERS = frozenset("*_~`")


def inert(text: str, most: int) -> str:
    """Data in a line of text, of so many characters. Slack renders no style that is in it.

    There is no escape for `*`, `_`, `~` and backticks, so a word with one of them is set as code: the name `a_b` looks
    as it should anyway. Where that makes it too long, those characters are left out.
    """
    return _inert(one_line(text, most), most)


def _inert(text: str, most: int) -> str:
    marked = "".join(map(_inert_word, re.split(r"(\s+)", text)))
    return marked if len(marked) <= most else fit(escape(text.translate(UNSTYLED)), most)


def _inert_word(word: str) -> str:
    if not _MARKERS & set(word):
        return escape(word)
    core = word.strip(_PUNCTUATION)
    before, _, after = word.partition(core)
    code = core.replace("`", "'")
    if not _MARKERS & set(code):
        return escape(word.replace("`", "'"))
    return f"{escape(before)}`{escape(code)}`{escape(after)}"


def in_span(text: str, most: int) -> str:
    """Data as a piece of code within a line."""
    return f"`{escape(one_line(text.replace('`', chr(39)), most)).strip() or ' '}`"


def in_code(text: str, most: int) -> str:
    """Data inside a code block or span: nothing in it ends the code or comes alive."""
    return fit(escape(text.replace("`", "'")), most)


FEW = 8
"""Workers that are named; more are counted."""


def named_or_counted(workers: Sequence[str], most: int) -> str:
    """The workers by name, `web-1/fetcher and 4 more`; many as `50 workers on 48 hosts`. Not escaped."""
    if len(workers) <= FEW:
        return shorten(workers, most)
    hosts = {each.partition("/")[0] for each in workers if "/" in each}
    return f"{len(workers):,} workers" + (f" on {len(hosts):,} hosts" if len(hosts) > 1 else "")


def shorten(names: Sequence[str], most: int) -> str:
    """The first names, and how many more there are: `a, b and 3 more`."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def first_lines(lines: Sequence[str], most: int, rest: str = "… and {} more") -> list[str]:
    """The first lines, and one with the number of the others where there are any."""
    more = len(lines) - most
    return [*lines[:most], *([rest.format(more)] if more > 0 else [])]


def unescape(text: str) -> str:
    """A text that came from Slack, as it was typed; undone exactly once."""
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def fit(text: str, limit: int, mark: str = CUT) -> str:
    """The text, cut to this length with a mark.

    It is cut after a line, else after a word, unless more than a third would be lost by that; never inside an entity
    such as `&amp;`, nor between a letter and its accent.
    """
    if len(text) <= limit:
        return text
    room = limit - len(mark)
    if room <= 0:
        return text[: max(limit, 0)]
    head = text[:room]
    for separator in ("\n", " "):
        at = head.rfind(separator)
        if at >= room * 2 // 3 > 0:
            return head[:at].rstrip() + mark
    return _whole_characters(text, room) + mark


def _whole_characters(text: str, room: int) -> str:
    start = text.rfind("&", max(0, room - 4), room)
    if start >= 0 and ";" not in text[start:room] and ";" in text[start : start + 5]:
        room = start
    while room > 0 and (unicodedata.combining(text[room]) or text[room] == "\N{ZERO WIDTH JOINER}"):
        room -= 1
    return text[:room]


def moment(at: datetime) -> str:
    """A moment to the second, in the reader's own time zone where Slack knows it."""
    return _date(at, "{date_short_pretty} {time_secs}", f"{at:%Y-%m-%d %H:%M:%S} UTC")


def minute(at: datetime) -> str:
    return _date(at, "{date_short_pretty} {time}", f"{at:%Y-%m-%d %H:%M} UTC")


RECENT = timedelta(hours=18)


def when(at: datetime, now: datetime) -> str:
    """A moment to the minute, with its day where it isn't near. To be read soon: an old message isn't drawn anew."""
    return _date(at, "{time}", f"{at:%H:%M} UTC") if abs(now - at) < RECENT else minute(at)


def period(begun: datetime, ended: datetime, now: datetime) -> str:
    """`14:02 to 14:10`; the time alone where both are in the same minute."""
    first, last = when(begun, now), when(ended, now)
    return first if ended.replace(second=0, microsecond=0) <= begun else f"{first} to {last}"


def day(at: datetime) -> str:
    return _date(at, "{date_short}", f"{at:%Y-%m-%d}")


def ago(at: datetime) -> str:
    """The time since or until a moment, as it is whenever somebody reads it; the moment where Slack can't say that."""
    return _date(at, "{ago}", f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC")


def dated(text: str) -> str:
    """Escaped text in which each timestamp is a time of the reader."""
    return replace_timestamps(text, lambda at: _date(at, "{time_secs}", f"{at:%H:%M:%S} UTC"))


def _date(at: datetime, form: str, fallback: str) -> str:
    return f"<!date^{int(at.timestamp())}^{form}|{fallback}>"


NAME = 80  # characters

MENTIONABLE = re.compile(r"[UW][A-Z0-9]{1,30}")
"""Slack's ids of people. Any other text in their place is shown as a name."""

UNSTYLED = str.maketrans("", "", "*_~`")
"""A name is not styled; there is no escape for these."""

MENTIONS = 100
"""Of one message; nobody has more approvers."""


def mention(issuer: Issuer) -> str:
    """A person: in Slack by mention, elsewhere by name and door."""
    prefix, _, rest = issuer.id.partition(":")
    user = rest.rpartition("/")[2]
    if prefix == "slack" and MENTIONABLE.fullmatch(user):
        return f"<@{user}>"
    if not rest or prefix == REPORTED:  # the configuration says so, or a host, which the name says
        return display_name(issuer)
    return f"{display_name(issuer)} ({escape(one_line(prefix, NAME))})"


def requester(issuer: Issuer) -> str:
    """The person who requests a command; for a schedule also its owner, whose rights count."""
    if not issuer.owner:
        return mention(issuer)
    return f"{mention(issuer)} of {mention(Issuer(issuer.owner, issuer.owner.partition(':')[2]))}"


def display_name(issuer: Issuer) -> str:
    return escape(one_line((issuer.name or issuer.id).translate(UNSTYLED), NAME))


def mentions(people: Iterable[Issuer], but: str = "") -> str:
    """A mention of each person whom Slack knows, once, without the one with this id."""
    found = dict.fromkeys(mention(each) for each in people if each.id != but)
    return " ".join([each for each in found if each.startswith("<@")][:MENTIONS])


LONGEST_TYPED = 400  # characters of something that is repeated letter by letter

LONGEST_TEXT, LONGEST_ERROR = 600, 2000
"""Characters of a part of a sentence, and of an error."""


def phrase_markup(phrase: Phrase, now: datetime | None = None, *, mentions: bool = True) -> str:
    """As markup; a moment near `now` without its day. Without mentions, people stand by their names: a mention of
    somebody who did something days ago calls them."""

    def name(issuer: Issuer) -> str:
        return _text(name_of(issuer).translate(UNSTYLED))

    def at(time: datetime) -> str:
        is_recent = now is not None and abs(now - time) < RECENT
        return _date(time, "{time_secs}", f"{time:%H:%M:%S} UTC") if is_recent else moment(time)

    text = render_phrase(phrase, _text, code_span, at, mention if mentions else name)
    # Slack shows "today 2:23 PM" for a moment: leave out "at" before it.
    return re.sub(r"\bat (<!date\^\d+\^\{date_short_pretty\})", r"\1", text)


def without_ids(phrase: Phrase) -> Phrase:
    """The same without the ids in parentheses, which are for a terminal."""
    parts: list[Part] = []
    for before, part in zip(("", *phrase), phrase, strict=False):
        if isinstance(part, Identifier):
            if parts and type(parts[-1]) is str:
                parts[-1] = parts[-1].removesuffix(" (")
        else:
            parts.append(part.removeprefix(")") if isinstance(before, Identifier) and type(part) is str else part)
    return tuple(parts)


def code_span(word: str) -> str:
    """In letters of one width; a backtick would end them. A command as it is typed in Slack."""
    if isinstance(word, CommandText):
        return f"`/supervisor {escape(fit(_line(unescape(word)), LONGEST_TYPED))}`"
    return f"`{escape(fit(_line(word), LONGEST_TYPED))}`"


def error_text(error: SupervisorError) -> str:
    return f"{_inert(error.message, LONGEST_ERROR)} {phrase_markup(error.todo)}".rstrip()


def _text(words: str) -> str:
    """A part of a sentence that may hold data. Its line breaks stay, and the spaces around it."""
    return _inert(words, LONGEST_TEXT)


def _line(word: str) -> str:
    return " ".join(word.replace("`", "'").split()) or " "
