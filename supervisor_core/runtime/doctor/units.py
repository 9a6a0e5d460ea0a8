"""What systemd knows of a process and of a unit: asked with a time limit, and nothing is changed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from supervisor_core.adapters.programs import run_command
from supervisor_core.domain.errors import SupervisorError

ASK_SECONDS = 5.0
"""An answer takes some milliseconds; a systemd that is stuck gives none for 25 s."""

PROPERTIES = ("Id", "LoadState", "Type", "KillMode", "OOMPolicy", "WatchdogUSec", "TimeoutStopUSec")
BOOTED = "run/systemd/system"
CONTAINER_FILES = (".dockerenv", "run/.containerenv")
CONTAINER_WORDS = re.compile(r"docker|kubepods|containerd|libpod|lxc|garden|\.nspawn")
_OF_A_USER = re.compile(r"^user@\d+\.service$")
_UNIT = re.compile(r".+\.(service|scope)$")
_MINUTE, _DAY = 60.0, 86_400.0
_SECONDS = {
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "min": _MINUTE,
    "h": 60 * _MINUTE,
    "d": _DAY,
    "w": 7 * _DAY,
    "month": 30.44 * _DAY,
    "y": 365.25 * _DAY,
}
_SPAN = re.compile(r"(\d+(?:\.\d+)?)(us|ms|s|min|h|d|w|month|y)")


class UnitsError(SupervisorError):
    """systemd could not be asked."""


class Unit(NamedTuple):
    """A unit, and whether a user's own systemd looks after it."""

    name: str
    of_user: bool = False

    @property
    def is_service(self) -> bool:
        """And not the scope of somebody's session."""
        return self.name.endswith(".service")


def has_systemd(root: Path) -> bool:
    """Whether it is what this system was booted with."""
    return (root / BOOTED).is_dir()


def is_container(root: Path) -> bool:
    """Whether this is one, as far as can be told from inside."""
    if any((root / name).exists() for name in CONTAINER_FILES):
        return True
    return CONTAINER_WORDS.search(_read(root / "proc/1/cgroup")) is not None


def unit_of(root: Path, pid: int | str) -> Unit | None:
    """The innermost unit that a process lives in; None where it is gone, or lives in none."""
    for line in _read(root / "proc" / str(pid) / "cgroup").splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers not in ("", "name=systemd"):
            continue
        parts = [part for part in path.split("/") if _UNIT.match(part)]
        of_user = any(map(_OF_A_USER.match, parts[:-1]))
        if parts:
            return Unit(parts[-1], of_user)
    return None


def ask(units: Sequence[Unit]) -> dict[str, Mapping[str, str]]:
    """The properties of those that are loaded, by name. `UnitsError` where systemd does not tell."""
    found: dict[str, Mapping[str, str]] = {}
    for of_user in (False, True):
        names = [unit.name for unit in units if unit.of_user == of_user]
        if not names:
            continue
        words = ["systemctl", *(["--user"] if of_user else []), "show", "-p", ",".join(PROPERTIES), *names]
        ran = run_command(words, timeout=ASK_SECONDS)
        if not ran.ok:
            said = "it does not answer" if ran.timed_out else " ".join(ran.errors.split()) or f"exit {ran.exit_code}"
            raise UnitsError(f"systemctl can't be asked: {said}")
        for block in ran.output.strip().split("\n\n"):
            told = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
            if told.get("LoadState") == "loaded" and "Id" in told:
                found[told["Id"]] = told
    return found


def seconds_in(span: str) -> float | None:
    """`37min 20s` in seconds, `infinity` as such; None for what is no time span."""
    if span == "infinity":
        return float("inf")
    parts = [_SPAN.fullmatch(word) for word in span.split()]
    if span == "0":
        return 0.0
    if not parts or not all(parts):
        return None
    return sum(float(part[1]) * _SECONDS[part[2]] for part in parts if part)


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
