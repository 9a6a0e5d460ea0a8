"""`supervisor import`: converts configurations of other tools, and names what has no place in ours."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from supervisor_core.cli.arguments import Subparsers, add_command
from supervisor_core.cli.output import fit
from supervisor_core.common.errors import UsageError
from supervisor_core.common.text import printable
from supervisor_core.config.raw import ENV_FILE
from supervisor_core.config.setup.files import write_file
from supervisor_core.config.setup.imports import convert_files
from supervisor_core.config.setup.imports.conversion import required_variables
from supervisor_core.config.worker_settings import SAFE
from supervisor_core.host.files import FileTaken


def add_parser(subparsers: Subparsers) -> None:
    description = "Convert files of systemd, supervisord or Cornerstone Archive, or the output of `pm2 jlist`."
    example = "import /etc/systemd/system/fetcher.service --output config.yaml"
    parser = add_command(subparsers, "import", run, description, example)
    files = "the other tool's configuration, or several for one new configuration; they aren't changed"
    parser.add_argument("file", nargs="+", metavar="FILE", help=files)
    parser.add_argument("--output", default="config.yaml", metavar="FILE", help="the new file (default: config.yaml)")
    parser.add_argument("--force", action="store_true", help="replace the new file if it exists")
    which = "a worker's id, once for each worker; by default those with a heartbeat on the drive"
    parser.add_argument("--worker-id", action="append", default=[], metavar="ID", help=which)


def run(arguments: argparse.Namespace) -> int:
    """Convert the files into one configuration."""
    sources, target = [Path(path) for path in arguments.file], Path(arguments.output)
    conversion = convert_files(sources, arguments.worker_id)
    try:
        write_file(target, conversion.text(", ".join(map(str, sources))), replace=arguments.force)
    except FileTaken:
        raise UsageError(f"{target} exists. Choose another --output, or replace it with --force.") from None
    # What isn't converted, and what to check or to do by hand.
    notes = list(conversion.notes)
    folders = {str(worker["cwd"]) for worker in conversion.document["workers"].values() if "cwd" in worker}
    notes += [
        f"{target} and its state folder are in {folder}. Keep them out of the code."
        for folder in map(Path, sorted(folders))
        if target.absolute().is_relative_to(folder) and folder != Path(folder.anchor)
    ]
    if needed := [name for name in required_variables(conversion.document) if name not in SAFE]:
        notes.append(f"set {', '.join(needed)} in {target.with_name(ENV_FILE)} (NAME=value, mode 0600).")
    for note in notes:
        print(fit(printable(f"Note: {note}")), file=sys.stderr)
    workers = ", ".join(conversion.document["workers"])
    source = str(sources[0]) if len(sources) == 1 else f"{len(sources)} files"
    print(f"Converted {source} to {target}. Workers: {workers}.")
    print(f"Next: supervisor config check --config {target}")
    return 0


def importable(folder: Path) -> list[Path]:
    """The configurations of other tools in their usual places and in this folder."""
    paths: tuple[str | Path, ...] = (
        "/etc/supervisord.conf",
        "/etc/supervisor/supervisord.conf",
        folder / "supervisord.conf",
    )
    return [path for path in map(Path, paths) if path.is_file()]
