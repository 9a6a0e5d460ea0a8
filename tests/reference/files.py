"""The files reference. A test compares the two tables with the code and with the files of a real run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from supervisor_core.commands.catalog import CATALOG
from supervisor_core.commands.definitions import CommandDefinition
from supervisor_core.commands.flags import MAX_BYTES
from tests.reference.markdown import code, fill, sentence, size, table

HOME: Mapping[str, str] = {
    "ledger.db": "The ledger (SQLite), with `-wal` and `-shm` next to it.",
    "ledger.db.replaced-TIME": "The ledger before a restore. Delete it when you don't need it.",
    "restoring/": "The ledger that a restore prepares.",
    "runtime.json": "The last status that the daemon wrote about itself.",
    "supervisor.log": "The log; [`logging.file`](configuration.md#logging) names it. Older ones end in `.1`, `.2` …",
    "events.jsonl": "The log as JSON lines, for `supervisor logs`.",
    "daemon.out": "Output of a background daemon before its log opened, or while it crashed.",
    "control.sock": "The daemon's control socket. Without Unix sockets: `control.json`, with a port and a token.",
    "control.json": "See `control.sock`.",
    "supervisor.lock": "Held by the daemon.",
    "passes.lock": "Held by passes.",
    "locks/worker_ID.lock": "Held by a pass for one worker.",
    "locks/code_HASH.lock": "Held by a command that changes a checkout.",
    "locks/python_HASH.lock": "Held by a command that installs into a Python environment.",
    "workers/ID.json": "The launch of a worker: mark, PID, start time, boot id.",
    "workers/ID.lock": "Held by whoever starts or stops the worker.",
    "workers/ID.starts": "Automatic restarts within the last hour.",
    "workers/ID.lives": "The last runs: how long they lasted, how they ended, and what was decided.",
    "workers/ID.frozen": "Since when the worker has been stopped by a signal.",
    "desired/ID.json": "A copy of the pause, for when the drive is away.",
    "desired/ID.quarantine": "Since when and why the worker is quarantined.",
    "output/ID.log": "Captured output of a worker. Older files end in `.1`, `.2` …",
    "output/ID.json": "How much of the output is on the drive.",
    "drive.json": "That this host has used the drive; see [below](#drive-marker).",
    "config_last_good.json": "The newest configuration without mistakes, used while the file is broken.",
    "slack_heard.json": "When the bot last heard from Slack.",
    "retention.swept": "When old rows and files were last deleted.",
    "retention.parts": "The finished parts of a deletion in progress.",
    "packages/COMMAND.json": "Installed packages before an `update-deps`.",
    "diagnostics/NAME": "Reports and outputs that were made while the drive was away.",
    "changes/": "Temporary worktrees in which reverts and merges are made.",
    "trials/": "Temporary worktrees of previews.",
    "nats/nats-server.conf": "Configuration of the fleet's server, in the hub's state folder.",
    "nats/accounts.conf": "The accounts of the fleet's server, with the keys that may connect and their rights.",
    "nats/data/": "Data of the fleet's server.",
    "nats/server.json": "The process of the fleet's server, if the hub runs it.",
    "nats/server.out": "What the fleet's server wrote before its log opened.",
    "nats/server.log": "Log of the fleet's server. Older ones have a time in their names.",
    "nats/NAME.pem": "Certificates: `ca.pem`, which hosts get with their token, and `server.pem`.",
    "nats/NAME.key": "Secret keys of the certificates.",
}
"""The state folder. `ID` is a worker, `COMMAND` a command id."""

DRIVE: Mapping[str, str] = {
    "inbox/supervisor_HANDLER_ID.flag": "A [flag](#flags). With a command id: `supervisor_HANDLER_ID_COMMAND.flag`.",
    "inbox/processing/": "Flags that were claimed.",
    "inbox/rejected/": "Rejected flags, each with a `.reason.txt`, and `report_COMMAND.json` for a sweep with many.",
    "outbox/supervisor_result_HANDLER_COMMAND.json": "A [result](#results). For the second worker of a command and "
    "further ones, the name ends in `_ID`.",
    "state/supervisor_pause_ID.flag": "The worker is paused. Without `inbox.secret`, you may create and delete it.",
    "state/watcher_heartbeat_ID.json": "The [heartbeat](#heartbeats) that a worker writes.",
    "state/supervisor_heartbeat_ID.json": "The supervisor's heartbeat about a worker.",
    "state/supervisor_drive.json": "The mark of the drive; see [below](#drive-marker).",
    "logs/supervisor.log": "A copy of the log, if there is a drive.",
    "logs/workers/ID.log": "Output of a worker, copied from the state folder, if there is a drive.",
    "logs/diagnostics/diagnostics_ID_TIME.json": "A [diagnostic report](../how-to/read-a-diagnostic-report.md). A "
    "label is added to the name.",
    "logs/diagnostics/db_verification_ID_TIME.json": "The result of `verify-db`.",
    "logs/diagnostics/command_HANDLER_ID_TIME.txt": "The output of a [custom command](../how-to/add-a-command.md), "
    "without secrets, where the message shows only a part of it.",
}
"""The shared drive. The first part is one of the keys of `nas.folders`."""


def page() -> str:
    handlers = (each for each in CATALOG.values() if each.handler)
    return fill(
        "files.md",
        {
            "home": _table(HOME.items()),
            "drive": _table((f"<{name.replace('/', '>/', 1)}", text) for name, text in DRIVE.items()),
            "parameters": table(("handler", "command", "`params`"), map(_parameters, handlers)),
            "size": size(MAX_BYTES),
        },
    )


def _table(rows: Iterable[tuple[str, str]]) -> str:
    return table(("file", "content"), ((code(name), text) for name, text in rows))


def _parameters(definition: CommandDefinition) -> tuple[str, str, str]:
    further = (*definition.parameters, *definition.untyped, *definition.spread_options, *definition.note_parameters)
    described = (f"`{each.name}`: {sentence(each.description)}" for each in further)
    return code(definition.handler), code(definition.name), " ".join(described)
