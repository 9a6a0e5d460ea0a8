"""A Python that is nothing but a pip, and that one a list in a file: for what is done around it, in milliseconds.

The real ones are in `venvs`. A requirement `nowhere` is not to be had; `slow` is waited for until `go` is called.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PIP = r"""#!/bin/sh
here=$(dirname "$0")
shift 5  # how pip is called, two words, and the three options
word=$1; shift
echo "$PWD $word $*" >> "$here/calls"
drop() { grep -v "^$1==" "$here/installed" > "$here/rest"; mv "$here/rest" "$here/installed"; }
put() {
    case $1 in
        nowhere) echo "ERROR: No matching distribution found for nowhere" >&2; exit 1;;
        slow) touch "$here/reached"; while [ ! -e "$here/go" ]; do sleep 0.02; done;;
        *==*) drop "${1%%==*}"; echo "$1" >> "$here/installed";;
    esac
}
case $word in
    freeze) echo pip==24.0; cat "$here/installed";;
    uninstall) shift; for name; do drop "$name"; done;;
    install)
        while [ $# -gt 0 ]; do
            if [ "$1" = -r ]; then
                shift; while read -r line; do put "$line"; done < "$1"
            else
                put "$1"
            fi
            shift
        done;;
esac
"""


@dataclass(frozen=True)
class SmallPython:
    """One such environment."""

    folder: Path

    @property
    def python(self) -> str:
        """Its interpreter."""
        return str(self.folder / "python")

    @property
    def reached(self) -> bool:
        """Whether an installation waits for something slow."""
        return (self.folder / "reached").exists()

    def go(self) -> None:
        """What is slow is there."""
        (self.folder / "go").touch()

    def has(self, *requirements: str) -> None:
        """What is installed."""
        (self.folder / "installed").write_text("".join(f"{each}\n" for each in requirements))

    def packages(self) -> set[str]:
        """What is installed now."""
        return set((self.folder / "installed").read_text().splitlines())

    def installed_in(self) -> list[str]:
        """The folders in which somebody installed something, and with which words."""
        calls = self.folder / "calls"
        lines = calls.read_text().splitlines() if calls.exists() else []
        return [line for line in lines if line.split()[1] == "install"]


def a_small_python(folder: Path) -> SmallPython:
    """A new one in this folder, which is made."""
    folder.mkdir(parents=True)
    made = SmallPython(folder)
    Path(made.python).write_text(PIP)
    Path(made.python).chmod(0o755)
    made.has()
    return made
