"""Both process backends on Linux: /proc with psutil, as the product uses it, and psutil alone, as elsewhere.

A test with the fixture `process_backend` runs against both. The programs that it starts follow, because the portable
one puts a folder with a `sitecustomize` on their PYTHONPATH.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path

from supervisor_core.host.process_facts import identity as processes_identity
from supervisor_core.host.process_facts import linux as platform_linux
from supervisor_core.host.process_facts import portable as platform_other
from supervisor_core.host.process_facts import signals as pidfd
from supervisor_core.host.process_facts import signals as processes_signals

ROOT = Path(__file__).parents[3]
FOLDER = Path(__file__).parent / "portable_processes"

LINUX, PORTABLE = "linux", "portable"
BACKENDS = (LINUX, PORTABLE)

ENV: MutableMapping[str, str] = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
"""The environment of programs that tests of processes start."""

_PAIRS = (
    ("platform", platform_linux, platform_other),
    ("send", pidfd.send, platform_other.send),
    ("wait_ended", pidfd.wait_ended, platform_other.wait_ended),
)
_HOLDERS = ("supervisor_core.", "tests.")
_OWNERS = {pidfd.__name__, platform_other.__name__, __name__}


@contextmanager
def swapped(name: str) -> Iterator[None]:
    """Use this backend, here and in programs that are started meanwhile."""
    if name == LINUX:
        yield
        return
    path = ENV["PYTHONPATH"]
    _replace(back=False)
    ENV["PYTHONPATH"] = python_path()
    try:
        yield
    finally:
        _replace(back=True)
        ENV["PYTHONPATH"] = path


def use_portable() -> None:
    """Use the portable backend in this program until its end, and no pidfds."""
    _replace(back=False)
    pidfd.has_pidfds = _unavailable  # type: ignore[assignment]


def is_portable() -> bool:
    """Whether this program uses the portable backend."""
    return processes_identity.platform is platform_other


def python_path() -> str:
    """The PYTHONPATH of programs that are to use the backend of this one."""
    return os.pathsep.join(map(str, (FOLDER, ROOT) if is_portable() else (ROOT,)))


def _replace(*, back: bool) -> None:
    """In every loaded module that holds one, because modules import these by name."""
    for module in [each for name, each in sys.modules.items() if name.startswith(_HOLDERS) and name not in _OWNERS]:
        held = vars(module)
        for name, linux, portable in _PAIRS:
            old, new = (portable, linux) if back else (linux, portable)
            if held.get(name) is old:
                held[name] = new


def _unavailable() -> bool:
    return False


assert processes_signals.send is pidfd.send
