"""The handler of all added commands: runs the program or the function once, and reports its output and exit."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass
from functools import partial
from typing import Any

from supervisor_core.added_commands.output import MOST_BYTES, Printed, as_table, as_text, last_lines
from supervisor_core.code.change_plan import STATE_PARAM, state_hash
from supervisor_core.commands.command import Outcome
from supervisor_core.commands.definitions import Output
from supervisor_core.common.errors import SupervisorError, describe
from supervisor_core.common.text import capitalize, sentence
from supervisor_core.common.threads import DaemonThreads
from supervisor_core.common.times import format_span
from supervisor_core.diagnosis.reports.files import keep_output, masking_of
from supervisor_core.host.logging.masking import Masking
from supervisor_core.host.programs import ProgramResult, run_command
from supervisor_core.jobs.model import Job
from supervisor_core.jobs.planned_runs import PlannedRun, plan_run, run_facts
from supervisor_core.plugins import CommandCall, CommandResult, ProgramOutput
from supervisor_core.workers.context import HostContext

ENDING_SECONDS = 5.0
"""The time that a killed program or a function's thread has to end."""


REPORTING_SECONDS = 2.5
"""The time after its limit in which a function can report the end of its program."""


@dataclass(frozen=True, slots=True)
class _Ended:
    error: str = ""
    message: str = ""
    output: str | Sequence[Sequence[object]] = ""
    truncated: bool = False
    exit_code: int | None = None


def run_added(host: HostContext, job: Job) -> Outcome:
    """Run an added command for one worker, or once on this host."""
    planned = plan_run(host.config, host.config.worker(job.worker_id), job.command, job.params)
    seen = job.params.get(STATE_PARAM)
    if seen and state_hash(run_facts(planned, job.worker_id, job.params)) not in str(seen).split(","):
        return Outcome.failed(
            f"The preview is out of date: {job.command} would now run something else. Nothing was run. "
            "Send the command again and check the new preview."
        )
    masking, begun = masking_of(host.config), time.monotonic()
    host.progress(f"running {planned.text(masking)}")
    ended = (_run_program if planned.argv else _run_function)(host, job, planned)
    details: dict[str, Any] = {"ran": planned.text(masking), "folder": str(planned.folder)}
    details |= {"runs": "host" if planned.extension.on_host else "worker", "origin": planned.extension.origin}
    details |= {"exit_code": ended.exit_code, "seconds": round(time.monotonic() - begun, 3)}
    if ended.message:
        details["message"] = masking.text(ended.message)
    details |= _output(host, job, planned, ended, masking)
    if ended.error:
        return Outcome.failed(masking.text(ended.error), **details)
    return Outcome.done(**details)


def longest_run(timeout: float) -> float:
    """The most seconds from the start of an added command to its outcome."""
    return timeout + ENDING_SECONDS


def _run_program(host: HostContext, job: Job, planned: PlannedRun) -> _Ended:
    done = run_command(
        planned.argv,
        cwd=planned.folder,
        env=planned.env,
        timeout=planned.extension.timeout,
        keep_bytes=MOST_BYTES,
    )
    error = describe_end(job.command, done, planned.extension.timeout)
    if error and (said := last_lines(done.errors or done.output, masking_of(host.config))):
        error = f"{error}\n{said}"
    return _Ended(error, "", done.output, done.truncated, done.exit_code)


def describe_end(name: str, done: ProgramResult, timeout: float) -> str:
    """The failure of a program in words; empty for a success."""
    if done.timed_out:
        killed = "was killed" if done.exit_code is not None else "couldn't be killed"
        return f"{name} {killed}: it ran for more than {format_span(timeout)}. To allow more, change its timeout."
    if done.exit_code is not None and done.exit_code < 0:
        return f"{name} crashed ({_signal_name(-done.exit_code)})."
    return f"{name} exited (code {done.exit_code})." if done.exit_code else ""


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _run_function(host: HostContext, job: Job, planned: PlannedRun) -> _Ended:
    """Call the function in a thread, because nothing can stop one that hangs."""
    limit, function = planned.extension.timeout, planned.extension.function
    if function is None:
        raise SupervisorError(f"{job.command} isn't in this configuration any more. Nothing was done.")
    deadline = time.monotonic() + limit
    hidden = [each.name for each in planned.definition.unseen]
    call = CommandCall(
        job.task_id,
        job.worker_id,
        planned.folder,
        {name: value for name, value in job.params.items() if name not in hidden},
        job.issuer.name or job.issuer.id,
        job.label,
        limit,
        partial(_run_for, planned, deadline),
        host.progress,
    )
    under_way = DaemonThreads("plug-in", 1, idle_seconds=0).submit(function, call)
    try:
        result = under_way.result(limit + REPORTING_SECONDS)
    except FutureTimeout:
        return _Ended(f"{job.command} isn't finished after {format_span(limit)}. Its function may still be running.")
    except SupervisorError as error:
        return _Ended(str(error))
    except BaseException as error:  # noqa: BLE001 (the edge of a plug-in, which may raise anything)
        return _Ended(f"{job.command} failed: {sentence(capitalize(describe(error)))}")
    if not isinstance(result, CommandResult):
        return _Ended(f"{job.command} returned {type(result).__name__}, not a CommandResult.")
    return _Ended(result.error, result.message, result.output)


def _run_for(planned: PlannedRun, deadline: float, argv: Sequence[str]) -> ProgramOutput:
    """Run a program for a plug-in, until the time of its command is over."""
    left = max(deadline - time.monotonic(), 0.1)
    done = run_command(tuple(argv), cwd=planned.folder, env=planned.env, timeout=left, keep_bytes=MOST_BYTES)
    return ProgramOutput(done.exit_code, done.output, done.errors, done.timed_out)


def _output(host: HostContext, job: Job, planned: PlannedRun, ended: _Ended, masking: Masking) -> Mapping[str, Any]:
    """What the outcome keeps of an output: its beginning, and the place of a file with the whole."""
    form = planned.extension.output
    printed = as_table(ended.output, masking) if form is Output.TABLE else as_text(ended.output, masking)
    if not printed.whole:
        return {}
    details: dict[str, Any] = {}
    if form is not Output.FILE:
        details["output"] = {"form": str(form.value), **printed.as_json()}
    if form is Output.FILE or printed.is_cut or ended.truncated:
        details |= keep_output(host, job, _file_content(printed))
    return details


def _file_content(printed: Printed) -> bytes:
    return printed.whole.encode("utf-8", "backslashreplace")
