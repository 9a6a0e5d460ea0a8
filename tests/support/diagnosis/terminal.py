"""A terminal for pictures: commands are really run in a folder, and what they printed is drawn as a shell shows it."""

from __future__ import annotations

import html
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path

COMMAND_SECONDS = 120.0
COLUMNS = 114
PROMPT = "$ "

PAGE = """\
<!doctype html>
<meta charset="utf-8">
<title>{title}</title>
<style>
  body {{ margin: 0; padding: 0; background: transparent; }}
  main {{ display: inline-block; background: #1b1f27; border-radius: 8px; overflow: hidden; }}
  header {{ background: #2a303c; color: #9aa5b8; font: 12px "DejaVu Sans", sans-serif; padding: 8px 14px; }}
  pre {{ margin: 0; padding: 14px; width: {columns}ch; color: #d8dee9;
         font: 14px/20px "DejaVu Sans Mono", monospace; font-variant-ligatures: none;
         white-space: pre-wrap; overflow-wrap: anywhere; }}
  b {{ color: #a3be8c; font-weight: normal; }}
  i {{ color: #ffffff; font-style: normal; font-weight: bold; }}
</style>
<main><header>{title}</header><pre>{lines}</pre></main>
"""


class Terminal:
    """What was typed in one folder, and what came of it. In pictures the folder has another name, and nothing else."""

    def __init__(self, folder: Path, shown_as: str, environ: Mapping[str, str]) -> None:
        self.folder = folder
        self.shown_as = shown_as
        self._environ = dict(environ)
        self._lines: list[str] = []

    def type(self, command: str, *, exit_code: int = 0) -> str:
        """Run it as typed, to its end; what it printed. An `AssertionError` where it ended with another code."""
        done = subprocess.run(
            shlex.split(command.replace(self.shown_as, str(self.folder))),
            cwd=self.folder,
            env=self._environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=COMMAND_SECONDS,
        )
        said = done.stdout.replace(str(self.folder), self.shown_as).rstrip()
        assert done.returncode == exit_code, f"{command} ended with {done.returncode}, not {exit_code}:\n{said}"
        self._lines += [f"<b>{PROMPT}</b><i>{html.escape(command)}</i>", html.escape(said)]
        return said

    def page(self) -> str:
        """All since the last picture, as a page of HTML; then the screen is empty again."""
        lines, self._lines = self._lines, []
        return PAGE.format(title=html.escape(self.shown_as), columns=COLUMNS, lines="\n".join(filter(None, lines)))
