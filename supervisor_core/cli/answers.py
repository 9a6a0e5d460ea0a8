"""Answers to commands that change no worker, as text or JSON."""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from supervisor_core.cli import status
from supervisor_core.cli.host import caller_fields, relayed, shell_issuer, wake
from supervisor_core.cli.table import MAX_WIDTH, paint, print_table, terminal_width, wants_colour
from supervisor_core.commands.addresses import is_address
from supervisor_core.commands.catalog import CATALOG, FAMILIES, find
from supervisor_core.commands.command import Command
from supervisor_core.commands.grammar import parse, render
from supervisor_core.commands.manual import help_overview, help_text
from supervisor_core.commands.phrases import plain
from supervisor_core.common.errors import CommandText, UsageError, as_in_shell, in_shell
from supervisor_core.common.text import printable, sentence
from supervisor_core.common.time_zones import host_zone, zone_of
from supervisor_core.common.times import clock_time, to_text
from supervisor_core.config.load import SupervisorConfig, example_worker, grammar_context
from supervisor_core.daemon.control.client import NotRunningError, UnresponsiveError, ask
from supervisor_core.daemon.environment import opened_ledger
from supervisor_core.diagnosis.history import SPANS, History, histories, history_text, percent, slice_colors
from supervisor_core.diagnosis.why.gathering import Explainer
from supervisor_core.diagnosis.why.model import Explanation
from supervisor_core.diagnosis.worker_logs import NewestLines, WorkerLog
from supervisor_core.intake.rolling.rules import RollingMove
from supervisor_core.intake.rolling.service import PREFIX, RollingChanges, RollingStatus
from supervisor_core.intake.schedules.service import Schedules, ScheduleStatus
from supervisor_core.jobs.model import new_task_id
from supervisor_core.workers.context import open_doors, open_drive
from supervisor_core.workers.observation import observe_workers
from supervisor_core.workers.teams import TeamPicture, team_pictures


def inform(command: Command, config: SupervisorConfig, *, as_json: bool) -> int:
    """Answer a command that needs no worker's host: print what it asks for, or change what the ledger alone holds."""
    if command.name in ("help", "overview"):
        topic = str(command.params.get("topic") or "")
        definitions = [definition] if (definition := find(topic)) else FAMILIES.get(topic, ())
        texts = [help_text(each, example_worker(config), len(config.workers)) for each in definitions]
        print("\n\n".join(texts) or help_overview(CATALOG.values()))
        return 0
    if command.name == "status":
        return status.show(str(config.path), command.target or None, "json" if as_json else "")
    if command.name == "audit":
        from supervisor_core.cli import audit

        return audit.show(config, command, "json" if as_json else "")
    first = command.name.split(" ")[0]
    if first in ("alerts", "mute", "unmute"):
        from supervisor_core.cli import alerts

        if first == "alerts":
            return alerts.show(config, as_json=as_json)
        return alerts.mute_or_unmute(command, config, as_json=as_json)
    if first == "approvals":
        from supervisor_core.cli import approvals

        return approvals.show(config, str(command.params.get("approval") or ""), as_json=as_json)
    return ANSWERS[first](command, config, as_json=as_json)


def teams(_command: Command, config: SupervisorConfig, *, as_json: bool) -> int:
    """List the teams, their members, and who of them is unhealthy."""
    now = datetime.now(UTC)
    with opened_ledger(config) as ledger:
        found = ledger.read(lambda connection: team_pictures(connection, config, now))
    seen = status.ask_status(str(config.state_dir), str(config.path))
    workers = {worker["id"]: worker for worker in seen["workers"]}
    if as_json:
        print(json.dumps([_team_document(team, workers) for team in found], indent=2))
    elif not found:
        print("No teams are configured. Define them under `teams`, and set `workers.ID.team`.")
    else:
        head, rows = ("TEAM", "MEMBERS", "UNHEALTHY", "LEFT RECENTLY", "OBJECTIVE"), []
        for team in found:
            ids = [each.agent_id for each in team.members]
            unwell = [each for each in ids if each in workers and not workers[each]["fine"]]
            members = [
                each.agent_id if each.role == "MEMBER" else f"{each.agent_id} ({each.role.lower()})"
                for each in team.members
            ]
            left = ", ".join(each.agent_id for each in team.left)
            rows.append((team.name, ", ".join(members), ", ".join(unwell), left, team.objective))
        print_table(head, rows)
    return 0


def logs(command: Command, config: SupervisorConfig, *, as_json: bool) -> int:
    """Print the newest lines of each worker; exit code 1 if some can't be read."""
    count, own = int(command.params["lines"]), [each for each in command.workers if not is_address(each)]
    found = NewestLines()(open_drive(config), config, own, count) if own else []
    found += _logs_elsewhere(config, [each for each in command.workers if is_address(each)], count)
    if as_json:
        print(json.dumps([asdict(written) for written in found], indent=2))
    else:
        texts = []
        for written in found:
            lines = [f"==> {written.worker_id}: {written.path} <=="] if len(found) > 1 else []
            if written.problem:
                lines.append(f"The output of {written.worker_id} can't be read. {written.problem}")
            elif written.nothing:
                lines.append(f"{written.worker_id} hasn't written anything yet. Its output goes to {written.path}.")
            texts.append("\n".join([*lines, *written.lines]))
        print("\n\n".join(texts))
    return 1 if any(written.problem for written in found) else 0


def _logs_elsewhere(config: SupervisorConfig, workers: Sequence[str], count: int) -> list[WorkerLog]:
    if not workers:
        return []
    from supervisor_core.fleet.questions import load_answers, load_log

    found: list[WorkerLog] = []
    for each in relayed(config, "logs", workers, count):
        if "error" in each:
            found += [
                WorkerLog(name, "", problem=each["error"]) for name in workers if name.startswith(f"{each['host']}/")
            ]
        else:
            found += load_answers(each["host"], each["answer"], load_log)
    return found


def _team_document(team: TeamPicture, workers: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """A team as JSON, with the keys of `supervisor status team:NAME --json`."""
    keys = ("state", "health", "fine", "paused")
    return {
        "team_name": team.name,
        "objective": team.objective or None,
        "members": [
            {"agent_id": each.agent_id, "role": each.role}
            | {key: workers.get(each.agent_id, {}).get(key) for key in keys}
            for each in team.members
        ],
        "left": [
            {"agent_id": each.agent_id, "role": each.role, "left_at": to_text(each.left_at) if each.left_at else None}
            for each in team.left
        ],
    }


_SLICES = {"green": ("▇", "32"), "yellow": ("▄", "33"), "red": ("▁", "31"), "white": ("·", "")}
SLICES = 24
"""Parts of the uptime bar: an hour each of a day."""

ANSWER_SECONDS = 2.0


def explain(command: Command, config: SupervisorConfig, *, as_json: bool) -> int:
    """Explain each worker, unhealthy ones first; exit code 1 if one is unhealthy."""
    own = [each for each in command.workers if not is_address(each)]
    found, problems = _explained_elsewhere(config, [each for each in command.workers if is_address(each)])
    if own:
        host = open_doors(config)
        looked = observe_workers(host, [config.workers[each] for each in own], beside=True)
        documents = _told_by_the_daemon(str(config.state_dir)) or {seen.worker.id: seen.as_json() for seen in looked}
        with opened_ledger(config) as ledger:
            found += Explainer(ledger)(host, looked, list(documents.values()), own)
        found.sort(key=lambda each: each.fine)
    for problem in problems:
        print(f"supervisor: {problem}", file=sys.stderr)
    if as_json:
        print(json.dumps([explanation_document(each) for each in found], indent=2))
    else:
        print("\n\n".join(explanation_text(each, alone=len(found) == 1) for each in found))
    return 0 if not problems and all(each.fine for each in found) else 1


def _explained_elsewhere(config: SupervisorConfig, workers: Sequence[str]) -> tuple[list[Explanation], list[str]]:
    """The explanations of other hosts, and the problems of those that don't answer."""
    if not workers:
        return [], []
    from supervisor_core.fleet.questions import HostError, load_answers, load_explanation

    found, problems = list[Explanation](), list[str]()
    for each in relayed(config, "why", workers):
        try:
            if "error" in each:
                raise HostError(str(each["error"]))
            found += load_answers(each["host"], each["answer"], load_explanation)
        except HostError as error:
            problems.append(str(error))
    return found, problems


def _told_by_the_daemon(state_dir: str) -> dict[str, dict[str, Any]]:
    """The workers as the daemon sees them, with probes and planned actions; empty without a daemon."""
    try:
        answer: Mapping[str, Any] = ask(state_dir, {"do": "status"}, ANSWER_SECONDS)
    except (NotRunningError, UnresponsiveError):
        return {}
    return {str(worker["id"]): worker for worker in answer["workers"]}


def explanation_text(explanation: Explanation, *, alone: bool) -> str:
    """The explanation for a terminal. A healthy worker among others gets one sentence."""
    return printable("\n".join(_explanation_lines(explanation, alone=alone)))


def _explanation_lines(explanation: Explanation, *, alone: bool) -> Iterator[str]:
    found, now = explanation.found, explanation.at
    yield _folded(sentence(plain(found.sentence, now)))
    if explanation.fine and not alone:
        return
    for phrase in found.also:
        yield _folded(sentence(plain(phrase, now)))
    if found.todo or found.remedies:
        yield _folded(f"Next step: {plain(found.todo, now)}", "  ")
        yield from (f"  {as_in_shell(CommandText(render(each)))}" for each in found.remedies)
    if explanation.conditions:
        yield "Conditions:"
    for held in explanation.conditions:
        yield _folded(f"- {held.words}{f', since {clock_time(held.since, now)}' if held.since else ''}", "  ")
    if explanation.before:
        yield "Recent events:"
        events = ((clock_time(event.at, now, seconds=True), plain(event.words, now)) for event in explanation.before)
        yield from (_folded(f"- {at}: {words}", "  ") for at, words in events)
    if explanation.lines:
        yield f"From its log ({explanation.log}):"
        yield from (f"  {line}" for line in explanation.lines)
    for each in explanation.unknown:
        yield _folded(f"Unknown: {each}")


def _folded(text: str, indent: str = "") -> str:
    return textwrap.fill(
        text,
        terminal_width() or MAX_WIDTH,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
        replace_whitespace=False,
    )


def explanation_document(explanation: Explanation) -> dict[str, Any]:
    found = explanation.found
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
        "before": [{"at": to_text(event.at), "words": plain(event.words)} for event in explanation.before],
        "lines": list(explanation.lines),
        "log": explanation.log,
        "unknown": list(explanation.unknown),
    }


def show_history(command: Command, config: SupervisorConfig, *, as_json: bool) -> int:
    """Print a paragraph about each worker."""
    until = datetime.now(UTC)
    since = until - SPANS[str(command.params.get("span") or "24h")]
    with opened_ledger(config) as ledger:
        found = histories(ledger, config, command.workers, since, until)
    if as_json:
        print(json.dumps([history_document(each) for each in found], indent=2))
        return 0
    texts = []
    for each in found:
        first, *rest = (printable(sentence(plain(phrase, each.until))) for phrase in history_text(each))
        lines = [_folded(line if re.match(r"\d+\. ", line) else f"- {line}", "  ") for line in rest]
        slices = (_SLICES[color] for color in slice_colors(each, SLICES))
        bar = "".join(paint(mark, color if wants_colour() else "") for mark, color in slices)
        texts.append("\n".join([_folded(first), f"{bar} {percent(each.uptime)}", *lines]))
    print("\n\n".join(texts) or "No workers are configured.")
    left = len(command.workers) - len(found)
    if left > 0:
        print(f"\n{left} more workers aren't shown. Name them to see them.")
    return 0


def history_document(told: History) -> dict[str, Any]:
    up = told.uptime
    return {
        "worker_id": told.worker_id,
        "since": to_text(told.since),
        "until": to_text(told.until),
        "uptime": up.share,
        "seconds": {
            "well": up.well.total_seconds(),
            "unwell": up.unwell.total_seconds(),
            "down": up.down.total_seconds(),
            "uncounted": up.uncounted.total_seconds(),
        },
        "changes": told.changes,
        "stretches": [
            {
                "condition": str(each.condition),
                "since": to_text(each.since),
                "until": to_text(each.until),
                "reason": each.reason,
            }
            for each in told.stretches
        ],
        "commands": [{"at": to_text(each.at), "command": each.name, "words": plain(each.words)} for each in told.marks],
    }


def scheduling(command: Command, config: SupervisorConfig, *, as_json: bool) -> int:
    """Add, list or remove a schedule."""
    now = datetime.now(UTC)
    with opened_ledger(config) as ledger:
        schedules = Schedules(ledger)
        if command.name.endswith("list"):
            _list(schedules.list(), as_json=as_json)
            return 0
        task_id = new_task_id(now)
        if command.name.endswith("remove"):
            gone = schedules.remove(str(command.params["name"]), shell_issuer(), task_id, now)
            said = f"Removed: {gone.name}. Commands that it has started keep running."
            details: dict[str, Any] = {"name": gone.name}
        else:
            inner = parse(str(command.params["command"]), grammar_context(config).later)
            if CATALOG[inner.name].handler is None and config.announcement() is None:
                raise UsageError(
                    f"{inner.name} only shows something, and a schedule from the shell has no channel for it.",
                    remedy="Set slack.alert_channel, or add the schedule in the Slack channel that should see the "
                    "answers.",
                )
            made = schedules.add(
                command.params, inner.target, shell_issuer(), host_zone(), task_id, None, now, config.announcement()
            )
            next_run = _clock(made.schedule.next_at, zone_of(made.schedule.zone))
            said = f"Added: {made.schedule.name} runs `{made.schedule.command}` {made.words}.\nNext: {next_run}"
            details = _schedule_document(made)
        awake = wake(config)
    if as_json:
        print(json.dumps({"task_id": task_id, "success": True, "error": None, "details": {**details, "daemon": awake}}))
        return 0
    print(said)
    if not awake and command.name.endswith("add"):
        print("No daemon is running, so schedules don't run. `supervisor daemon start` starts one.")
    return 0


def _list(found: Sequence[ScheduleStatus], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps([_schedule_document(each) for each in found]))
        return
    if not found:
        print('No schedules. To add one: supervisor schedule add nightly "0 3 * * *" restart WORKER')
        return
    zone = zone_of(host_zone())
    head = ("NAME", "WHEN", "NEXT", "COMMAND", "OWNER", "LAST")
    rows = []
    for each in found:
        schedule = each.schedule
        last = f"{_clock(schedule.last.at, zone)} {each.outcome}" if schedule.last else "-"
        if schedule.waiting_since is not None:
            last = f"waiting since {_clock(schedule.waiting_since, zone)}: {schedule.waiting_for}"
        next_run = _clock(schedule.next_at, zone)
        rows.append((schedule.name, each.words, next_run, schedule.command, schedule.owner.id, last))
    print_table(head, rows)


def _schedule_document(standing: ScheduleStatus) -> dict[str, Any]:
    schedule, last = standing.schedule, standing.schedule.last
    return {
        "name": schedule.name,
        "cron": schedule.cron,
        "zone": schedule.zone,
        "words": standing.words,
        "command": schedule.command,
        "owner": schedule.owner.id,
        "next_at": to_text(schedule.next_at),
        "waiting_since": to_text(schedule.waiting_since) if schedule.waiting_since else None,
        "waiting_for": schedule.waiting_for or None,
        "last_at": to_text(last.at) if last else None,
        "last_state": last.state if last else None,
        "last_outcome": standing.outcome or None,
        "last_task_id": schedule.last_task_id or None,
    }


def _clock(at: datetime, zone: ZoneInfo) -> str:
    return f"{at.astimezone(zone):%Y-%m-%d %H:%M %Z}"


MONITORING_SECONDS = 10.0
"""The daemon records the change before it answers, and a disk may be slow."""


def monitoring(command: Command, config: SupervisorConfig, *, as_json: bool) -> int:
    """Pause or resume monitoring, and print the result."""
    request = {"do": "monitoring", "rest": command.name.endswith("pause"), **caller_fields()}
    try:
        answer = ask(str(config.state_dir), request, timeout=MONITORING_SECONDS)
        done, said = bool(answer.get("ok")), str(answer.get("message") or answer.get("error"))
        said += f" To resume: {in_shell((CommandText('monitoring resume'),))}" if done and request["rest"] else ""
    except NotRunningError:
        done, said = False, "No daemon is running, so nothing is monitored. `supervisor daemon start` starts one."
    except UnresponsiveError as error:
        done, said = False, f"{error} `supervisor status` shows whether monitoring changed."
    if as_json:
        print(json.dumps({"success": done, "error": None if done else said, "details": {"message": said}}))
    else:
        print(said, file=sys.stdout if done else sys.stderr)
    return 0 if done else 1


def rolling(command: Command, config: SupervisorConfig, *, as_json: bool) -> int:
    """Pause, continue or abort a rolling change, or show its progress."""
    word, task_id = command.name.removeprefix(PREFIX), str(command.params["task_id"])
    with opened_ledger(config) as ledger:
        changes = RollingChanges(ledger)
        if word != "status":
            changes.move(task_id, RollingMove(word), shell_issuer(), "cli")
        progress = changes.status(task_id)
    awake = wake(config) if word != "status" else True
    if as_json:
        print(json.dumps({"task_id": task_id, "success": True, "error": None, "details": _rolling_document(progress)}))
        return 0
    print("\n".join(progress.lines()))
    if not awake:
        print("No daemon is running, so it doesn't go on. `supervisor daemon start` starts one.")
    return 0


def _rolling_document(progress: RollingStatus) -> dict[str, Any]:
    change = progress.change
    return {
        "target": change.target,
        "state": change.state,
        "batch": change.released,
        "batches": change.batches,
        "workers": {str(part): list(workers) for part, workers in progress.parts().items()},
        "healthy_seconds": change.terms.healthy.total_seconds(),
        "max_failures": change.terms.max_failures,
        "failures": dict(change.failures),
        "accepted": change.accepted,
        "reason": change.reason or None,
        "decided_by": change.decided_by.id,
        "decided_at": to_text(change.decided_at),
    }


ANSWERS = {
    "why": explain,
    "history": show_history,
    "teams": teams,
    "logs": logs,
    "monitoring": monitoring,
    "schedule": scheduling,
    "rolling": rolling,
}
