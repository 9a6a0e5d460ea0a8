"""The limits reference, from the constants that the code uses."""

from __future__ import annotations

from collections.abc import Iterable

from bot import pools
from bot.access import checks, people
from bot.inbound import connection, dispatcher, notices
from bot.outbound import delivery, rate_limits, slack_api, slack_errors
from bot.views import files as uploads
from supervisor_core.added_commands import KEPT_CHARACTERS, KEPT_LINES, MOST_BYTES
from supervisor_core.alerts import incoming as payload
from supervisor_core.alerts import oncall
from supervisor_core.alerts import rules as alert_rules
from supervisor_core.alerts.incoming import MOST_FIRING
from supervisor_core.alerts.outside import deadman, sender, transport
from supervisor_core.code import planning
from supervisor_core.commands import flags
from supervisor_core.commands.catalog import CATALOG, MAX_REASON
from supervisor_core.commands.labels import MAX_LABEL
from supervisor_core.commands.parameters import MAX_SCHEDULED, ParameterKind
from supervisor_core.commands.words import MAX_TEXT
from supervisor_core.common import events
from supervisor_core.config.setup.imports import conversion
from supervisor_core.daemon import ownership, single_pass
from supervisor_core.daemon.services import retention
from supervisor_core.diagnosis import worker_logs
from supervisor_core.fleet.hub import fleet
from supervisor_core.host import drive, inbox
from supervisor_core.host.files import MAX_JSON_BYTES
from supervisor_core.host.logging import excerpts, log
from supervisor_core.intake import inbox as flag_intake
from supervisor_core.intake import scheduler
from supervisor_core.intake.approvals import rows
from supervisor_core.intake.approvals import service as execution
from supervisor_core.intake.schedules import service as schedules
from supervisor_core.jobs import model, results
from supervisor_core.plugins.loading import LONGEST_SECONDS
from supervisor_core.processes.output import capture as output
from supervisor_core.storage import shared_database, writer
from supervisor_core.storage.tables import metadata
from supervisor_core.web import incoming
from supervisor_core.web import service as web_service
from supervisor_core.workers import conditions
from supervisor_core.workers.health import FROZEN_SECONDS, SKEW_SECONDS
from supervisor_core.workers.output import service as output_service
from supervisor_core.workers.restarts import policy
from tests.reference.markdown import code, code_list, duration, fill, interval, size, table

Rows = Iterable[tuple[str, str]]


def page() -> str:
    return fill(
        "limits.md",
        {
            "batch": str(retention.BATCH),
            "pass": duration(single_pass.SWEEP_SECONDS),
            "tables": table(("table", "how long"), _tables()),
            "messages": table(("after delivery", "kinds"), _messages()),
            "files": table(("files", "how long", "how many"), _files()),
            "sections": "\n\n".join(f"## {title}\n\n{table(('what', 'limit'), rows)}" for title, rows in _sections()),
        },
    )


def _tables() -> Rows:
    for name in sorted(metadata.tables):
        kept = [
            f"{duration(rule.period)} after {rule.after}."
            for rule in retention.RETENTIONS
            if rule.table.name == name and rule.after
        ]
        yield code(name), " ".join(kept) or retention.KEPT_TABLES[name]


def _messages() -> Rows:
    for kept, kinds in retention.MESSAGES_KEPT.items():
        yield duration(kept), code_list(sorted(kinds))
    yield "Kept: one each", code_list(sorted(retention.RENEWED))
    yield duration(retention.DAY), "All others."


def _files() -> Iterable[tuple[str, str, str]]:
    for each in retention.FILES:
        if not each.name.startswith("temporary files in") or each.name.endswith("/."):
            name = "temporary files that a crash left" if each.names == retention.TEMPORARY else each.name
            if not (each.names == retention.TEMPORARY and each.on_drive):
                yield name, duration(each.period), f"{each.most:,}" if each.most else ""


def _sections() -> Iterable[tuple[str, Rows]]:
    yield "Commands", _commands()
    yield "Flags", _flags()
    yield "Workers", _workers()
    yield "Alerts", _alerts()
    yield "Shared drive", _drive()
    yield "Slack", _slack()
    yield "Daemon", _daemon()


def _commands() -> Rows:
    number = next(each for each in CATALOG["rollback"].parameters if each.kind is ParameterKind.NUMBER)
    muted = next(each for each in CATALOG["mute"].parameters if each.kind is ParameterKind.DURATION)
    yield "Length of a command", f"{MAX_TEXT:,} characters; {MAX_SCHEDULED} within a schedule"
    yield "Length of a label", f"{MAX_LABEL} characters"
    yield "Length of a reason", f"{MAX_REASON} characters; {rows.REASON:,} for a vote"
    yield "Commits that `rollback` reverts", f"{number.low} to {number.high}"
    yield "Duration of a mute", f"{duration(muted.low)} to {duration(muted.high)}"
    yield "Schedules of a host", f"{schedules.MOST}"
    yield "Steps of a job that are kept", f"{model.MOST_PROGRESS}, each of {model.PROGRESS_WORDS} characters"
    yield "Preview of a code change", f"{duration(planning.PREVIEW_SECONDS)}, however many checkouts"
    yield "Time limit of a custom command", f"up to {duration(LONGEST_SECONDS)}"
    yield (
        "Output of a custom command",
        f"{size(MOST_BYTES)}; {KEPT_CHARACTERS:,} characters in {KEPT_LINES} lines are shown",
    )
    yield "Approved command that can't start yet", f"expires after {duration(execution.PATIENCE)}"
    yield "Approvals and schedules that run at the same time", f"{scheduler.AT_ONCE} each"
    yield "Code changes of a worker that can be undone", f"the newest {retention.CHANGES_KEPT}"


def _flags() -> Rows:
    yield "Size of a flag", size(flags.MAX_BYTES)
    yield "Flags that wait for one worker", f"{flag_intake.WAITING:,}; further ones are rejected"
    yield "Flags of one sweep", f"{flag_intake.TAKEN}, and as many junk ones; the next sweep goes on at once"
    yield "Rejections of one sweep with an audit row each", f"{flag_intake.EACH}; one row and a report for the others"
    yield "Time until an unreadable flag is rejected", f"{duration(flag_intake.SETTLE_SECONDS)} without a change"
    yield "Files in `rejected/`", f"{inbox.KEPT_REJECTED:,}, and {inbox.KEPT_REPORTS} reports"
    yield "Files of other hosts in `processing/`", f"{inbox.KEPT_PROCESSING:,}"
    yield "Flags that one look lists", f"{inbox.LISTED:,}"


def _workers() -> Rows:
    yield "Longest wait before a restart", f"{duration(policy.LONGEST_PAUSE_SECONDS)}, ±{policy.JITTER:.0%}"
    yield "Run after which a restart doesn't wait", duration(policy.HEALTHY_SECONDS)
    yield "Time until a stopped process counts as frozen", duration(FROZEN_SECONDS)
    yield "Tolerated clock difference of a heartbeat", duration(SKEW_SECONDS)
    yield (
        "Captured output",
        "`logging.max_bytes` for the newest file, and for each of `logging.backups` older ones; twice that in a burst",
    )
    yield "Captured output of a removed worker", duration(output_service.FORGET_SECONDS)
    yield "Output that one append brings to the drive", size(output.PIECE_BYTES)


def _alerts() -> Rows:
    low = f"{conditions.LOW_PERCENT:g} % and {conditions.LOW_BYTES // conditions.GIB} GiB"
    yield "Free disk space that is low", f"less than {low}, or less than {conditions.LEAST_BYTES // 1024**2} MiB"
    yield "Longest wait between reminders", duration(alert_rules.LONGEST_REMINDER)
    yield "Request of Alertmanager", f"{size(incoming.MOST_BYTES)}, {payload.MOST_ALERTS} alerts"
    yield "Requests of Alertmanager", f"{incoming.A_MINUTE} a minute, after {incoming.BURST} at once"
    yield "Firing alerts of Alertmanager", f"{MOST_FIRING:,}; more are refused until others end"
    yield "Answer about who is on call", f"{size(oncall.MOST_BYTES)}, {oncall.MOST_PEOPLE} people"
    yield "One attempt to reach a receiver of alerts", duration(transport.LONGEST_SECONDS)
    yield "Attempts to reach a receiver of alerts", f"for {duration(sender.PATIENCE)}"
    yield "Dead-man ping", f"every {interval(deadman.PING_SECONDS)}; again after {duration(deadman.RETRY_SECONDS)}"


def _drive() -> Rows:
    yield "Calls to the drive", f"{drive.THREADS} at a time, {duration(drive.TIMEOUT_SECONDS)} each"
    yield "Size of a JSON file, such as a heartbeat", size(MAX_JSON_BYTES)
    yield "End of a log that is read", f"{size(excerpts.READ_BYTES)}; {size(worker_logs.READ_BYTES)} for `logs`"


def _slack() -> Rows:
    yield "Age of a request that changes something", f"{duration(checks.MAX_AGE)}; then it is refused"
    yield "Checking a person's rights", f"{duration(people.VERIFY_SECONDS)}; then the command is refused"
    yield "Time that groups and people are remembered", duration(people.REMEMBERED_SECONDS)
    yield "Members of a channel that gives a role", f"{people.PAGE * people.MOST_PAGES:,}"
    yield "Requests in progress", f"{dispatcher.AT_ONCE}; others wait as rows"
    yield "Commands being previewed", f"{pools.PREVIEWS}"
    yield "Size of an uploaded file", size(uploads.MOST_BYTES)
    yield "Duration of an upload", duration(slack_api.UPLOAD_SECONDS)
    yield "Unanswered calls", f"{delivery.UNDER_WAY}, and {delivery.UNDER_WAY_OF_ONE} of one method"
    yield "Longest wait that Slack can ask for", duration(slack_errors.LONGEST_WAIT_SECONDS)
    for method, most in rate_limits.PER_MINUTE.items():
        yield f"Calls of `{method}`, of which {rate_limits.SHARE_OF_TIER:.0%} are used", f"{most} a minute"
    yield "Edits of one message", f"one every {interval(rate_limits.EDIT_OF_ONE_SECONDS)}"
    yield "Edits of all messages", f"one every {interval(rate_limits.EDIT_SECONDS)}"
    yield (
        "Posts in one channel",
        f"one every {interval(rate_limits.POST_SECONDS)}, after {rate_limits.POST_BURST} at once",
    )
    yield "Time until a silent connection is replaced", duration(connection.SILENT_SECONDS)
    yield "Outage that is announced afterwards", f"longer than {duration(notices.SHORTEST_GAP)}"


def _daemon() -> Rows:
    yield "Settings of other hosts' workers in a hub's memory", f"{fleet.MOST_KEPT:,}"
    yield "Time that `start` waits for a pass", duration(ownership.PASS_WAIT_SECONDS)
    yield "Events that wait for one subscriber", f"{events.QUEUE_SIZE}; the oldest are dropped"
    yield "Writes in one transaction", f"{writer.MOST_PER_TRANSACTION}"
    yield "Rows sent to the shared database at a time", f"{shared_database.BATCH_ROWS}"
    yield "Connections to the status page", f"{web_service.MOST_CONNECTIONS}; those without a request are closed soon"
    yield "Workers of one import", f"{conversion.MOST_WORKERS:,}"
    yield "Result files that are written in one go", f"{results.AT_ONCE}"
    yield "The same warning in the log", f"once every {interval(log.REPEAT_SECONDS)}, with a count"
