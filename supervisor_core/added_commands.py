"""Runs the commands that the configuration or a plug-in adds, each once, and makes their output safe and bounded."""

from __future__ import annotations

import re
import time
import unicodedata
from collections.abc import Sequence
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, NamedTuple

from supervisor_core.code.change_plan import STATE_PARAM, state_hash
from supervisor_core.commands.command import Outcome
from supervisor_core.commands.definitions import Output
from supervisor_core.common.errors import SupervisorError, describe
from supervisor_core.common.text import capitalize, one_line, printable, sentence
from supervisor_core.common.threads import DaemonThreads
from supervisor_core.common.times import format_span
from supervisor_core.diagnosis.reports.files import keep_output, masking_of
from supervisor_core.host.logging.masking import Masking
from supervisor_core.host.programs import run_command
from supervisor_core.jobs.model import Job
from supervisor_core.jobs.planned_runs import PlannedRun, plan_run, run_facts
from supervisor_core.plugins import CommandCall, CommandResult, ProgramOutput
from supervisor_core.workers.context import HostContext
from supervisor_core.workers.restarts.policy import signal_name

MOST_BYTES = 1024 * 1024
"""The most bytes of an output, half from its beginning and half from its end."""

KEPT_CHARACTERS = 2500
"""The characters of an output that its outcome keeps."""

KEPT_LINES = 40
MOST_COLUMNS, LONGEST_CELL = 12, 60
LAST_LINES = 5
"""The lines of an error that its outcome keeps."""

LONGEST_LINE = 1000

_STYLES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
"""The colors and titles that programs write for terminals."""

ENDING_SECONDS = 5.0
"""The time that a killed program or a function's thread has to end."""


REPORTING_SECONDS = 2.5
"""The time after its limit in which a function can report the end of its program."""


class _Result(NamedTuple):
    error: str = ""
    message: str = ""
    output: str | Sequence[Sequence[object]] = ""
    truncated: bool = False
    exit_code: int | None = None


def run_added(host: HostContext, job: Job) -> Outcome:
    """Run an added command for one worker, or once on this host."""
    planned = plan_run(host.config, host.config.worker(job.worker_id), job.command, job.params)
    previewed = job.params.get(STATE_PARAM)
    if previewed and state_hash(run_facts(planned, job.worker_id, job.params)) not in str(previewed).split(","):
        return Outcome.failed(
            f"The preview is out of date: {job.command} would now run something else. Nothing was run. "
            "Send the command again and check the new preview."
        )
    masking, started = masking_of(host.config), time.monotonic()
    host.progress(f"running {planned.text(masking)}")
    result = (_run_program if planned.argv else _run_function)(host, job, planned)
    details: dict[str, Any] = {"ran": planned.text(masking), "folder": str(planned.folder)}
    details |= {"runs": "host" if planned.extension.on_host else "worker", "origin": planned.extension.origin}
    details |= {"exit_code": result.exit_code, "seconds": round(time.monotonic() - started, 3)}
    if result.message:
        details["message"] = masking.text(result.message)
    form = planned.extension.output
    printed = as_table(result.output, masking) if form is Output.TABLE else as_text(result.output, masking)
    if printed.whole and form is not Output.FILE:
        details["output"] = {"form": str(form.value), **printed.as_json()}
    if printed.whole and (form is Output.FILE or printed.is_cut or result.truncated):
        details |= keep_output(host, job, printed.whole.encode("utf-8", "backslashreplace"))
    if result.error:
        return Outcome.failed(masking.text(result.error), **details)
    return Outcome.done(**details)


def longest_run(timeout: float) -> float:
    """The most seconds from the start of an added command to its outcome."""
    return timeout + ENDING_SECONDS


def _run_program(host: HostContext, job: Job, planned: PlannedRun) -> _Result:
    timeout = planned.extension.timeout
    result = run_command(planned.argv, cwd=planned.folder, env=planned.env, timeout=timeout, keep_bytes=MOST_BYTES)
    error, code = "", result.exit_code
    if result.timed_out:
        killed, limit = "was killed" if code is not None else "couldn't be killed", format_span(timeout)
        error = f"{job.command} {killed}: it ran for more than {limit}. To allow more, change its timeout."
    elif code:
        error = f"{job.command} crashed ({signal_name(-code)})." if code < 0 else f"{job.command} exited (code {code})."
    if error and (last := last_lines(result.errors or result.output, masking_of(host.config))):
        error = f"{error}\n{last}"
    return _Result(error, "", result.output, result.truncated, result.exit_code)


def _run_function(host: HostContext, job: Job, planned: PlannedRun) -> _Result:
    """Call the function in a thread, because nothing can stop one that hangs."""
    limit, function = planned.extension.timeout, planned.extension.function
    if function is None:
        raise SupervisorError(f"{job.command} isn't in this configuration any more. Nothing was done.")
    deadline = time.monotonic() + limit

    def run(argv: Sequence[str]) -> ProgramOutput:
        remaining = max(deadline - time.monotonic(), 0.1)
        result = run_command(tuple(argv), cwd=planned.folder, env=planned.env, timeout=remaining, keep_bytes=MOST_BYTES)
        return ProgramOutput(result.exit_code, result.output, result.errors, result.timed_out)

    internal = {parameter.name for parameter in planned.definition.unseen}
    call = CommandCall(
        job.task_id,
        job.worker_id,
        planned.folder,
        {name: value for name, value in job.params.items() if name not in internal},
        job.issuer.name or job.issuer.id,
        job.label,
        limit,
        run,
        host.progress,
    )
    future = DaemonThreads("plug-in", 1, idle_seconds=0).submit(function, call)
    try:
        result = future.result(limit + REPORTING_SECONDS)
    except FutureTimeout:
        return _Result(f"{job.command} isn't finished after {format_span(limit)}. Its function may still be running.")
    except SupervisorError as error:
        return _Result(str(error))
    except BaseException as error:  # noqa: BLE001 (the edge of a plug-in, which may raise anything)
        return _Result(f"{job.command} failed: {sentence(capitalize(describe(error)))}")
    if not isinstance(result, CommandResult):
        return _Result(f"{job.command} returned {type(result).__name__}, not a CommandResult.")
    return _Result(result.error, result.message, result.output)


@dataclass(frozen=True, slots=True)
class Printed:
    """An output without secrets and control characters."""

    whole: str
    excerpt: str
    rows: tuple[tuple[str, ...], ...] = ()
    """The shown rows of a table, its headings first."""

    @property
    def is_cut(self) -> bool:
        return len(self.excerpt) < len(self.whole)

    def as_json(self) -> dict[str, Any]:
        rows = {"rows": [list(row) for row in self.rows]} if self.rows else {}
        return {"text": self.excerpt, "cut": self.is_cut, **rows}


def as_text(output: str | Sequence[Sequence[object]], masking: Masking) -> Printed:
    """The output as text; of a long one, the first lines are shown."""
    text = output if isinstance(output, str) else "\n".join("\t".join(map(str, row)) for row in output)
    whole = _clean(text, masking).strip("\n").rstrip()
    return Printed(whole, _beginning(whole))


def as_table(output: str | Sequence[Sequence[object]], masking: Masking) -> Printed:
    if isinstance(output, str):
        lines = _clean(output, masking).splitlines()
        rows = [line.split("\t") for line in lines if line.strip()]
    else:
        rows = [[_clean(str(cell), masking) for cell in row] for row in output]
    cells = [tuple(one_line(cell.strip(), LONGEST_CELL) for cell in row[:MOST_COLUMNS]) for row in rows]
    widths = [max(map(_width, column)) for column in zip_longest(*cells, fillvalue="")]
    aligned = (
        "  ".join(cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=False)).rstrip()
        for row in cells
    )
    whole = "\n".join(aligned)
    excerpt = _beginning(whole)
    return Printed(whole, excerpt, tuple(cells[: len(excerpt.splitlines())]))


def _width(text: str) -> int:
    """The columns of a text in a fixed-width font."""
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(unicodedata.combining(character) != 0 for character in text)


def last_lines(output: str, masking: Masking) -> str:
    """The last lines of an error, which say the most. Secrets are masked before a line is cut."""
    lines = [line.rstrip() for line in _clean(output, masking).splitlines() if line.strip()]
    return "\n".join(line[:LONGEST_LINE] for line in lines[-LAST_LINES:])


def _clean(text: str, masking: Masking) -> str:
    return printable(masking.text(_STYLES.sub("", text.replace("\r\n", "\n"))))


def _beginning(text: str) -> str:
    """The first lines, as many as an outcome keeps."""
    lines = text.splitlines()[:KEPT_LINES]
    while len(lines) > 1 and sum(len(line) + 1 for line in lines) > KEPT_CHARACTERS:
        lines.pop()
    return "\n".join(lines)[:KEPT_CHARACTERS]
