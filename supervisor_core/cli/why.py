"""`supervisor why` and `history`: a worker's condition explained, and its past."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from supervisor_core.cli.host import ask_hosts
from supervisor_core.cli.output import MAX_WIDTH, fields_of, paint, print_json, terminal_width, wants_color
from supervisor_core.commands.addresses import is_address
from supervisor_core.commands.command import Command
from supervisor_core.commands.grammar import render
from supervisor_core.commands.phrases import plain
from supervisor_core.common.errors import CommandText, as_in_shell
from supervisor_core.common.text import printable, sentence
from supervisor_core.common.times import clock_time
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.daemon.control.client import NotRunningError, UnresponsiveError, ask
from supervisor_core.daemon.environment import opened_ledger
from supervisor_core.diagnosis.history import SPANS, History, histories, history_text, percent, slice_colors
from supervisor_core.diagnosis.why.gathering import Explainer
from supervisor_core.diagnosis.why.model import Explanation
from supervisor_core.workers.context import open_doors
from supervisor_core.workers.observation import observe_workers

BARS = {"green": ("▇", "32"), "yellow": ("▄", "33"), "red": ("▁", "31"), "white": ("·", "")}
SLICES = 24
"""Parts of the uptime bar: an hour each of a day."""

ANSWER_SECONDS = 2.0


def explain(command: Command, config: SupervisorConfig, *, as_json: bool) -> int:
    """Explain each worker, unhealthy ones first; exit code 1 if one is unhealthy."""
    own = [worker_id for worker_id in command.workers if not is_address(worker_id)]
    explanations, problems = _explain_elsewhere(config, [name for name in command.workers if is_address(name)])
    if own:
        host = open_doors(config)
        statuses = observe_workers(host, [config.workers[worker_id] for worker_id in own], beside=True)
        try:  # the daemon knows probes and planned actions, too
            documents = ask(str(config.state_dir), {"do": "status"}, ANSWER_SECONDS)["workers"]
        except (NotRunningError, UnresponsiveError):
            documents = [status.as_json() for status in statuses]
        with opened_ledger(config) as ledger:
            explanations += Explainer(ledger)(host, statuses, documents, own)
        explanations.sort(key=lambda explanation: explanation.fine)
    for problem in problems:
        print(f"supervisor: {problem}", file=sys.stderr)
    if as_json:
        print_json(list(map(explanation_document, explanations)), indented=True)
    else:
        print(
            "\n\n".join(explanation_text(explanation, is_only=len(explanations) == 1) for explanation in explanations)
        )
    return 0 if not problems and all(explanation.fine for explanation in explanations) else 1


def _explain_elsewhere(config: SupervisorConfig, workers: Sequence[str]) -> tuple[list[Explanation], list[str]]:
    """The explanations of other hosts, and the problems of those that don't answer."""
    if not workers:
        return [], []
    from supervisor_core.fleet.questions import HostError, load_answers, load_explanation

    explanations, problems = list[Explanation](), list[str]()
    for answer in ask_hosts(config, "why", workers):
        try:
            if "error" in answer:
                raise HostError(str(answer["error"]))
            explanations += load_answers(answer["host"], answer["answer"], load_explanation)
        except HostError as error:
            problems.append(str(error))
    return explanations, problems


def explanation_text(explanation: Explanation, *, is_only: bool) -> str:
    """The explanation for a terminal. A healthy worker among others gets one sentence."""
    return printable("\n".join(_explanation_lines(explanation, is_only=is_only)))


def _explanation_lines(explanation: Explanation, *, is_only: bool) -> Iterator[str]:
    finding, now = explanation.found, explanation.at
    yield _fill(sentence(plain(finding.sentence, now)))
    if explanation.fine and not is_only:
        return
    yield from (_fill(sentence(plain(phrase, now))) for phrase in finding.also)
    if finding.todo or finding.remedies:
        yield _fill(f"Next step: {plain(finding.todo, now)}", "  ")
        yield from (f"  {as_in_shell(CommandText(render(remedy)))}" for remedy in finding.remedies)
    if explanation.conditions:
        yield "Conditions:"
    for condition in explanation.conditions:
        since = f", since {clock_time(condition.since, now)}" if condition.since else ""
        yield _fill(f"- {condition.words}{since}", "  ")
    if explanation.before:
        yield "Recent events:"
    for event in explanation.before:
        yield _fill(f"- {clock_time(event.at, now, seconds=True)}: {plain(event.words, now)}", "  ")
    if explanation.lines:
        yield f"From its log ({explanation.log}):"
        yield from (f"  {line}" for line in explanation.lines)
    yield from (_fill(f"Unknown: {fact}") for fact in explanation.unknown)


def _fill(text: str, indent: str = "") -> str:
    return textwrap.fill(
        text,
        terminal_width() or MAX_WIDTH,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
        replace_whitespace=False,
    )


def explanation_document(explanation: Explanation) -> dict[str, Any]:
    finding = explanation.found
    return {
        **fields_of(explanation, "found"),
        "cause": finding.cause,
        "sentence": sentence(plain(finding.sentence)),
        "also": [sentence(plain(phrase)) for phrase in finding.also],
        "todo": plain(finding.todo),
        "commands": list(map(render, finding.remedies)),
        "since": finding.since,
        "before": [{"at": event.at, "words": plain(event.words)} for event in explanation.before],
    }


def show_history(command: Command, config: SupervisorConfig, *, as_json: bool) -> int:
    """Print a paragraph about each worker."""
    until = datetime.now(UTC)
    since = until - SPANS[str(command.params.get("span") or "24h")]
    with opened_ledger(config) as ledger:
        worker_histories = histories(ledger, config, command.workers, since, until)
    if as_json:
        print_json(list(map(_history_document, worker_histories)), indented=True)
        return 0
    texts = []
    for history in worker_histories:
        first, *others = (printable(sentence(plain(phrase, history.until))) for phrase in history_text(history))
        lines = [_fill(line if re.match(r"\d+\. ", line) else f"- {line}", "  ") for line in others]
        bars = (BARS[color] for color in slice_colors(history, SLICES))
        bar = "".join(paint(mark, color if wants_color() else "") for mark, color in bars)
        texts.append("\n".join([_fill(first), f"{bar} {percent(history.uptime)}", *lines]))
    print("\n\n".join(texts) or "No workers are configured.")
    hidden = len(command.workers) - len(worker_histories)
    if hidden > 0:
        print(f"\n{hidden} more workers aren't shown. Name them to see them.")
    return 0


def _history_document(history: History) -> dict[str, Any]:
    return {
        **fields_of(history, "marks"),
        "uptime": history.uptime.share,
        "seconds": history.uptime,
        "changes": history.changes,
        "commands": [{"at": mark.at, "command": mark.name, "words": plain(mark.words)} for mark in history.marks],
    }
