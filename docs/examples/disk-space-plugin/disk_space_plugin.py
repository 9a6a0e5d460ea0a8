"""A plug-in with one command: the free space of the disk that a worker's folder is on."""

import shutil

from supervisor_core.plugins import CommandCall, CommandResult, PluginCommand, number

GIGABYTE = 10**9


def disk_space(call: CommandCall) -> CommandResult:
    usage = shutil.disk_usage(call.folder)
    free = 100 * usage.free / usage.total
    rows = [("total", "used", "free"), tuple(f"{each / GIGABYTE:.1f} GB" for each in usage)]
    low = f"{call.worker_id}: only {free:.0f}% is free. Delete old files." if free < call.params["at_least"] else ""
    return CommandResult(f"{free:.0f}% is free", output=rows, error=low)


COMMAND = PluginCommand(
    "disk-space",
    "Show the free space of a worker's disk.",
    disk_space,
    parameters=[number("at_least", "percent that must be free", low=0, high=100, default=0)],
    role="viewer",
    changes=False,
    output="table",
)
