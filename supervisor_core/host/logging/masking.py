"""Masking of secrets, in all their spellings, in text and JSON that reports and logs show."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import datetime
from pathlib import PurePath
from typing import Any
from urllib.parse import quote, quote_plus, unquote

from supervisor_core.common.text import storable
from supervisor_core.common.times import to_text
from supervisor_core.host.web import MASK

SHORTEST = 4
"""Shorter secrets would match ordinary words; the configuration has the same limit."""

# `user:password@` of an address. Whoever wrote the password may have left an @ or a slash in it as it is: then more
# than the password goes, which is the better mistake. The lengths are bounds for the work, not for passwords.
_IN_ADDRESS = re.compile(r"(://)(?:[^\s\"'<>/]{0,500}|[^\s\"'<>/:@]{0,100}:[^\s\"'<>]{0,500})@")

# A token from a file that only its own program reads.
_SLACK_TOKEN = re.compile(r"\bx(?:ox[a-z]|app)-[A-Za-z0-9.-]{8,}")


class Masking:
    """Masks these secrets. `public` words are never masked."""

    def __init__(self, secrets: Collection[str], public: Collection[str] = ()) -> None:
        spellings = {spelling for secret in secrets if secret not in public for spelling in _spellings(secret)}
        self._spellings = sorted(spellings - set(public), key=len, reverse=True)  # one may be part of another
        self.longest = max(map(len, self._spellings), default=0)

    def text(self, text: str) -> str:
        for secret in self._spellings:
            text = text.replace(secret, MASK)
        return storable(_SLACK_TOKEN.sub(MASK, _IN_ADDRESS.sub(rf"\1{MASK}@", text)))

    def ours(self, value: Any) -> Any:  # noqa: ANN401 (any content of a report)
        """A value that we made: its keys, numbers and `Path`s (folders of the configuration) aren't masked."""
        return self._walk(value, str, lambda number: number, path=lambda path: storable(str(path)))

    def foreign(self, value: Any) -> Any:  # noqa: ANN401 (any JSON)
        """A value that others made, in which anything may be a secret."""
        return self._walk(value, self.text, lambda number: MASK if str(number) in self._spellings else number)

    def _walk(
        self,
        value: Any,  # noqa: ANN401
        key: Callable[[str], str],
        number: Callable[[Any], Any],
        path: Callable[[PurePath], str] | None = None,
    ) -> Any:  # noqa: ANN401
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int | float):
            return number(value) if math.isfinite(value) else str(value)
        if isinstance(value, Mapping):
            return {key(str(name)): self._walk(item, key, number, path) for name, item in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [self._walk(item, key, number, path) for item in value]
        if isinstance(value, datetime):
            return to_text(value)
        if isinstance(value, PurePath) and path is not None:
            return path(value)
        return self.text(str(value) if isinstance(value, str | PurePath) else repr(value))


def _spellings(secret: str) -> Iterator[str]:
    """The spellings of the same text: plain, in an address, in JSON, in Python."""
    lines = [line.strip() for line in secret.splitlines()]
    for text in {secret, secret.strip(), unquote(secret), *(lines if len(lines) > 1 else ())}:
        if len(text) >= SHORTEST:
            yield from (text, quote(text, safe=""), quote_plus(text), repr(text)[1:-1])
            yield from (json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1])
