"""`supervisor send 'why OrionMX'`: the same explanation as in Slack, in plain words."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from supervisor_core.adapters.worker import Search
from supervisor_core.config import load_supervisor_config
from supervisor_core.domain.command import Command
from supervisor_core.domain.explanation import Event, Explanation, Found
from supervisor_core.domain.grammar import render
from supervisor_core.domain.phrases import in_utc, plain
from supervisor_core.domain.texts import sentence, shown
from supervisor_core.domain.times import to_text
from supervisor_core.runtime.control_client import NotRunningError, UnresponsiveError, ask
from supervisor_core.runtime.doors import open_doors
from supervisor_core.runtime.explaining import Explainer
from supervisor_core.runtime.host import opened_ledger
from supervisor_core.runtime.observing import look

WIDTH = 100
ANSWER_SECONDS = 2.0


def why(command: Command, config: str | None, *, as_json: bool) -> int:
    """Explain each of them, those in trouble first; 1 where one is unwell."""
    loaded = load_supervisor_config(config)
    host = open_doors(loaded)
    looked = look(host, [loaded.workers[each] for each in command.workers], search=Search.ALWAYS)
    documents = _told_by_the_daemon(str(loaded.state_dir)) or {seen.worker.id: seen.as_json() for seen in looked}
    with opened_ledger(loaded) as ledger:
        found = Explainer(ledger)(host, looked, list(documents.values()), command.workers)
    if as_json:
        print(json.dumps([document(each) for each in found], indent=2))
    else:
        print("\n\n".join(in_words(each, alone=len(found) == 1) for each in found))
    return 0 if all(each.fine for each in found) else 1


def _told_by_the_daemon(state_dir: str) -> dict[str, dict[str, Any]]:
    """How workers are by the daemon, which asks their probes and knows what it is about to do; empty without one."""
    try:
        answer: Mapping[str, Any] = ask(state_dir, {"do": "status"}, ANSWER_SECONDS)
    except (NotRunningError, UnresponsiveError):
        return {}
    return {str(worker["id"]): worker for worker in answer["workers"]}


def in_words(explanation: Explanation, *, alone: bool) -> str:
    """For a terminal. Of one that is well among others, its sentence is all there is to say."""
    return shown("\n".join(_lines(explanation, alone=alone)))


def _lines(explanation: Explanation, *, alone: bool) -> Iterator[str]:
    found = explanation.found
    yield _folded(sentence(plain(found.sentence)))
    if explanation.fine and not alone:
        return
    for phrase in found.also:
        yield _folded(sentence(plain(phrase)))
    if found.todo or found.remedies:
        yield _folded(f"What to do: {plain(found.todo)}", "  ")
        yield from (f"  supervisor send '{render(each)}'" for each in found.remedies)
    if explanation.conditions:
        yield "It is:"
    for held in explanation.conditions:
        yield _folded(f"- {held.words}{f', since {in_utc(held.since)}' if held.since else ''}", "  ")
    if explanation.before:
        yield "What happened until then:"
        yield from (_folded(f"- {in_utc(event.at)}: {plain(event.words)}", "  ") for event in explanation.before)
    if explanation.lines:
        yield f"Lines of its log that matter ({explanation.log}):"
        yield from (f"  {line}" for line in explanation.lines)
    for each in explanation.unknown:
        yield _folded(f"Not known: {each}")


def _folded(text: str, indent: str = "") -> str:
    return textwrap.fill(
        text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False, replace_whitespace=False
    )


def document(explanation: Explanation) -> dict[str, Any]:
    """For programs."""
    found: Found = explanation.found
    return {
        "worker_id": explanation.worker_id,
        "fine": explanation.fine,
        "cause": str(found.cause),
        "sentence": sentence(plain(found.sentence)),
        "also": [sentence(plain(each)) for each in found.also],
        "todo": plain(found.todo),
        "commands": [render(each) for each in found.remedies],
        "since": to_text(found.since) if found.since else None,
        "conditions": [
            {"words": held.words, "since": to_text(held.since) if held.since else None}
            for held in explanation.conditions
        ],
        "before": [_event(event) for event in explanation.before],
        "lines": list(explanation.lines),
        "log": explanation.log,
        "unknown": list(explanation.unknown),
    }


def _event(event: Event) -> dict[str, str]:
    return {"at": to_text(event.at), "words": plain(event.words)}
