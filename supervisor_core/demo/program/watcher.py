"""A worker that moves every file from one folder to another."""

from __future__ import annotations

import sys
from pathlib import Path

import yaml

from supervisor_core.demo.worker import Worker, worker_options

HERE = Path(__file__).resolve().parent
UNFINISHED = (".part", ".tmp")  # still being written


class Watcher(Worker):
    """Moves the files that have arrived since the last look."""

    def work(self) -> None:
        """Move all files, by name. The first line of each is its title."""
        files = sorted(file for file in self.options.incoming.iterdir() if file.is_file())
        files = [file for file in files if file.suffix not in UNFINISHED]
        for file in files:
            title = file.read_text(encoding="utf-8").partition("\n")[0]
            if not title:
                raise ValueError(f"{file.name} has no title")
            file.replace(self.options.outgoing / file.name)
            self.done(f"moved {file.name}: {title}")


if __name__ == "__main__":
    parser = worker_options()
    parser.add_argument("--incoming", required=True, type=Path, help="folder to move files from")
    parser.add_argument("--outgoing", required=True, type=Path, help="folder to move files to")
    settings = yaml.safe_load((HERE / "watcher.yaml").read_text(encoding="utf-8"))
    watcher = Watcher(parser.parse_args())
    watcher.poll_seconds = float(settings["poll_seconds"])
    watcher.closing_seconds = float(settings.get("closing_seconds", 0))
    sys.exit(watcher.run())
