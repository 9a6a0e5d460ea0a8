"""Commands: jobs, approvals and votes, schedules, and the watch after a code change."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Index, Integer, String, UniqueConstraint, text

from supervisor_core.storage.engine import LongText, RowId, UtcDateTime
from supervisor_core.storage.tables.definition import (
    COMMAND_ID,
    LABEL,
    PERSON_ID,
    PERSON_NAME,
    STATE,
    WORKER_ID,
    key,
    optional,
    required,
    supervisor_id,
    table,
)

_NEXT_CHANGE = text("(SELECT COALESCE(MAX(changed), 0) + 1 FROM jobs_t)")
_OWNER = "The person whose rights count if it isn't the issuer: the owner of a schedule."
_DOOR = (
    "The source of the command: `slack`, `cli`, `flag` or `schedule`; `host` for what a host of the fleet reported of "
    "itself."
)

jobs = table(
    "jobs_t",
    "Jobs: one row for each command and worker, unique by `task_id` and `worker_id`.",
    key("job_id", RowId, "A number.", counted=True),
    required("task_id", String(COMMAND_ID), "The command id."),
    required("worker_id", String(WORKER_ID), "The worker."),
    supervisor_id(),
    required("handler", String(64), "The handler, such as `rollback_code`."),
    required("params_json", LongText, "The parameters."),
    optional("label", String(LABEL), "The label as it was typed."),
    required("issuer_id", String(PERSON_ID), "The id of the requester."),
    required("issuer_name", String(PERSON_NAME), "The name of the requester."),
    optional("owner_id", String(PERSON_ID), _OWNER),
    required("door", String(16), _DOOR),
    required("approvals_json", LongText, "The people who approved it, and when."),
    required("state", String(STATE), "The progress. A job that never started goes from `queued` to `done`."),
    required("tier", Integer, "The priority; lower numbers run first."),
    required("filed_at", UtcDateTime, "The order within a tier: for a flag, the file time."),
    required("created_at", UtcDateTime, "When the row was written."),
    optional("claimed_at", UtcDateTime, "When the job was claimed; of a job for another host, when its sending began."),
    optional("started_at", UtcDateTime, "When its handler started."),
    optional("finished_at", UtcDateTime, "When it ended."),
    optional("success", Boolean, "True if it succeeded."),
    optional("error", LongText, "Why it failed and what to do."),
    optional("details_json", LongText, "The details of the [result](files.md#results)."),
    optional("progress_json", LongText, "The steps so far: a list of `{at, words}`, the oldest first."),
    optional("batch", Integer, "The batch of a rolling change, from 1; NULL for any other command."),
    # Set by the table itself, so that no writer can forget it. In the order of the commits.
    Column(
        "changed",
        RowId,
        nullable=False,
        default=_NEXT_CHANGE,
        onupdate=_NEXT_CHANGE,
        doc="A number that rises with every insert and update of any job in this ledger.",
    ),
    UniqueConstraint("task_id", "worker_id"),
    Index(None, "changed"),
)
Index("ix_jobs_t_waiting", jobs.c.state, jobs.c.worker_id, jobs.c.tier, jobs.c.filed_at, jobs.c.job_id)
Index(None, jobs.c.handler, jobs.c.finished_at)

rolling_changes = table(
    "rolling_changes_t",
    "Rolling changes: commands that run in batches. A job with a batch waits until this row releases it.",
    key("task_id", String(COMMAND_ID), "The command id."),
    supervisor_id(),
    required("target", LongText, "The target as it was typed."),
    required("state", String(STATE), "The progress. Each change is a compare-and-set with an audit row."),
    required("batches", Integer, "The number of batches."),
    required("released", Integer, "The newest batch whose jobs may start."),
    required("released_at", UtcDateTime, "Since when they may start."),
    required("healthy_seconds", Integer, "For how long a batch must be healthy before the next one."),
    required("max_failures", Integer, "The failed workers that it may have before it halts."),
    required("failures_json", LongText, "The failed workers of the decided batches, each with the reason."),
    required("accepted", Integer, "The failures that somebody accepted by continuing."),
    required("requested_at", UtcDateTime, "When it began."),
    required("decided_at", UtcDateTime, "When the row last changed."),
    required("decided_by", String(PERSON_ID), "Who changed it last; `supervisor` for a batch."),
    required("decided_name", String(PERSON_NAME), "The name of that person."),
    optional("reason", LongText, "Why it halted."),
    Index(None, "state"),
)

approvals = table(
    "approvals_t",
    "One row for each command that needs an approval.",
    key("approval_id", String(32), "Eight letters."),
    required("task_id", String(COMMAND_ID), "The id of the command."),
    supervisor_id(),
    required("command", String(64), "The name of the command."),
    required("target", LongText, "The target as it was typed."),
    required("params_json", LongText, "The parameters."),
    required("workers_json", LongText, "The workers that the target meant."),
    optional("label", String(LABEL), "The label as it was typed."),
    required("issuer_id", String(PERSON_ID), "The id of the requester."),
    required("issuer_name", String(PERSON_NAME), "The name of the requester."),
    optional("owner_id", String(PERSON_ID), f"{_OWNER} The owner can't vote either."),
    required("door", String(16), _DOOR),
    optional("card_json", LongText, "The place of the Slack message."),
    required("preview_json", LongText, "The [previews](command-line.md#supervisor-send) that people approve."),
    required(
        "fingerprint",
        String(64),
        "SHA-256 of the command and its previews. If it differs later, the approval is `stale`.",
    ),
    required("state", String(STATE), "The progress. Each change is a compare-and-set with an audit row."),
    required("votes_needed", Integer, "`slack.approvals.votes` at the time of the request."),
    required("self_approval", Boolean, "`slack.approvals.self_approval` at the time of the request."),
    required("requested_at", UtcDateTime, "When the approval was requested."),
    required("expires_at", UtcDateTime, "When it expires."),
    optional("due_at", UtcDateTime, "When the supervisor looks at it next; NULL while its jobs run, or at its end."),
    optional("decided_at", UtcDateTime, "When it was decided."),
    optional("finished_at", UtcDateTime, "When it ended."),
    optional("reason", LongText, "Why it ended, or what it waits for."),
    UniqueConstraint("task_id"),
    Index(None, "state", "due_at"),
)

votes = table(
    "votes_t",
    "Votes: one for each person and approval.",
    key("approval_id", String(32), "The approval."),
    key("voter_id", String(PERSON_ID), "The id of the voter."),
    supervisor_id(),
    required("voter_name", String(PERSON_NAME), "The name of the voter."),
    required("choice", String(16), "The vote."),
    optional("reason", LongText, "The reason that the voter gave."),
    required("door", String(16), "Where the vote was cast: `slack` or `cli`."),
    required("voted_at", UtcDateTime, "When the vote was cast."),
    required("place", Integer, "The order of the votes: two may come in the same microsecond."),
    UniqueConstraint("approval_id", "place"),
)

bakes = table(
    "bakes_t",
    "Workers that are watched after a code change.",
    key("task_id", String(COMMAND_ID), "The command that changed the code."),
    key("worker_id", String(WORKER_ID), "The worker that is watched."),
    supervisor_id(),
    required("asked_for", String(WORKER_ID), "The worker that the command named; another one of the same checkout."),
    required("state", String(STATE), "The [result](../how-to/change-code-safely.md#watched-afterwards) so far."),
    required("since", UtcDateTime, "The end of the command."),
    required("until", UtcDateTime, "The end of the watch."),
    optional("decided_at", UtcDateTime, "When the result was known."),
    optional("reason", LongText, "Why, if the worker isn't well."),
    Index(None, "state", "until"),
)

schedules = table(
    "schedules_t",
    "Commands that run at set times.",
    key("schedule_id", String(32), "Eight letters."),
    supervisor_id(),
    required("name", String(64), "The name as it was typed."),
    # NULL once it is removed: a unique column allows any number of NULLs.
    optional("taken_name", String(64), "The name in lower case, until the schedule is removed. Unique."),
    required("cron", String(100), "The cron expression."),
    required("zone", String(64), "The time zone of the cron expression."),
    required("command", LongText, "The command as it would be typed."),
    # A worker that was removed must not become the label of another worker's command.
    required("target", LongText, "The target within the command. Its workers are looked up at each run."),
    required("owner_id", String(PERSON_ID), "The person who added it. It runs with that person's rights."),
    required("owner_name", String(PERSON_NAME), "The name of the owner."),
    optional("card_json", LongText, "The place of the Slack messages; NULL for the alert channel."),
    required("task_id", String(COMMAND_ID), "The command that added it."),
    required("state", String(STATE), "Whether it runs."),
    required("added_at", UtcDateTime, "When it was added."),
    required("next_at", UtcDateTime, "The time of the next run."),
    optional("due_at", UtcDateTime, "When the supervisor looks at it next: at `next_at`, or later while it waits."),
    optional("waiting_since", UtcDateTime, "Since when the owner's rights couldn't be verified."),
    optional("waiting_for", LongText, "Why they couldn't be verified."),
    optional("last_at", UtcDateTime, "The time of the last run."),
    optional("last_state", String(STATE), "The outcome of the last run."),
    optional("last_reason", LongText, "Why the last run didn't happen."),
    optional("last_task_id", String(COMMAND_ID), "The command id of the newest run."),
    optional("refused_since", UtcDateTime, "The first of the refusals in a row."),
    required("refusals", Integer, "The number of refusals in a row."),
    optional("removed_at", UtcDateTime, "When it was removed."),
    optional("removed_by", String(PERSON_ID), "The id of the person who removed it."),
    optional("removed_name", String(PERSON_NAME), "The name of that person."),
    optional("removed_task_id", String(COMMAND_ID), "The command that removed it."),
    required("secret", String(64), "A random key in the ledger alone. The command ids of the runs are made with it."),
    UniqueConstraint("supervisor_id", "taken_name"),
    UniqueConstraint("task_id"),
    Index(None, "state", "due_at"),
)
