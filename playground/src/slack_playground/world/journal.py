"""The journal: everything that went over the wire and everything that a person did, one JSON line each."""

from __future__ import annotations

import json
from collections import deque
from pathlib import Path
from typing import IO

from slack_playground.values import Clock, Json
from slack_playground.world.feed import Feed

KEPT = 50_000  # entries in memory; the file has them all


class Journal:
    """Numbered entries, kept in memory, written to a file where one is named, and told to the feed."""

    def __init__(self, clock: Clock, feed: Feed, path: Path | None = None) -> None:
        self._clock, self._feed = clock, feed
        self._file: IO[str] | None = path.open("a", encoding="utf-8", errors="backslashreplace") if path else None
        self.entries: deque[Json] = deque(maxlen=KEPT)
        self._n = 0

    def write(self, kind: str, **fields: object) -> Json:
        """Add one entry."""
        self._n += 1
        entry = {"n": self._n, "at": round(self._clock.now(), 6), "kind": kind, **fields}
        self.entries.append(entry)
        if self._file:
            self._file.write(json.dumps(entry, ensure_ascii=False, default=str) + "\n")
            self._file.flush()
        self._feed.publish("traffic", entry=entry)
        return entry

    def select(self, *, kind: str | None = None, since: int = 0) -> list[Json]:
        """The entries after `since`, all or of one kind."""
        return [e for e in self.entries if e["n"] > since and kind in (None, e["kind"])]

    def close(self) -> None:
        """Close the file."""
        if self._file:
            self._file.close()
            self._file = None
