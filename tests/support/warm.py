"""The command line as a process of its own without the half second of imports: forked from one that has made them.

It is the real `main`, in a process with its own arguments, folder, environment and output. Hundreds of tests call the
command line to look at something else; those about the program itself start it from nothing (`program=`).
"""

from __future__ import annotations

import array
import atexit
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

REQUEST_BYTES = 256 * 1024
KILLED = -signal.SIGKILL

_server: tuple[int, subprocess.Popen[bytes], Path] | None = None


def run(words: Sequence[str], cwd: Path, env: Mapping[str, str], timeout: float) -> subprocess.CompletedProcess[str]:
    """`supervisor words…` to its end, like `subprocess.run` with its output captured."""
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
    ):
        channel.connect(str(_address()))
        request = json.dumps({"words": list(words), "cwd": str(cwd), "env": dict(env)}).encode()
        fds = array.array("i", [out.fileno(), err.fileno()])
        channel.sendmsg([len(request).to_bytes(4, "big") + request], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
        pid = int.from_bytes(channel.recv(4), "big")
        channel.settimeout(timeout)
        try:
            answer = channel.recv(1)
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)  # it is a child of our own server, which reaps it only once it has ended
            channel.settimeout(None)
            channel.recv(1)
            raise subprocess.TimeoutExpired(list(words), timeout) from None
        code = answer[0] if answer else KILLED
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode())
        return subprocess.CompletedProcess(["supervisor", *words], code, *texts)


def _address() -> Path:
    """Where the server of this test process listens; started when it is first needed."""
    global _server  # noqa: PLW0603 (one for each process that runs tests)
    if _server is None or _server[0] != os.getpid() or _server[1].poll() is not None:
        folder = tempfile.mkdtemp(prefix="warm-")
        address = Path(folder) / "s"
        env = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.warm", str(address)],
            cwd=Path(__file__).parents[2],
            env=env,
            stdin=subprocess.PIPE,
        )
        _server = (os.getpid(), process, address)
        atexit.register(_end, process, address)
        deadline = time.monotonic() + 30
        while not address.exists():
            assert process.poll() is None, "the warm server could not start"
            assert time.monotonic() < deadline, "the warm server does not listen"
            time.sleep(0.01)
    return _server[2]


def _end(process: subprocess.Popen[bytes], address: Path) -> None:
    assert process.stdin is not None
    process.stdin.close()  # it ends with whoever started it, however that ended
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(5)
    address.unlink(missing_ok=True)
    address.parent.rmdir()


def _serve(address: str) -> None:
    """Be the warm process: import, listen, and fork for each request. No thread is ever started here."""
    from supervisor_core.cli import COMMANDS, main

    for name in COMMANDS:
        if name not in ("demo", "playground"):
            import_module(f"supervisor_core.cli.{name}_command")
    for name in ("sqlalchemy.dialects.sqlite", "supervisor_core.ledger.store", "supervisor_core.runtime.supervisor"):
        import_module(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the children are reaped by the kernel
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(f"{address}.new")
        listener.listen(64)
        os.rename(f"{address}.new", address)  # noqa: PTH104 (there before anybody connects)
        os.set_blocking(sys.stdin.fileno(), False)
        import select

        poll = select.poll()
        poll.register(listener, select.POLLIN)
        poll.register(sys.stdin.fileno(), select.POLLIN | select.POLLHUP)
        while True:
            ready = dict(poll.poll())
            if sys.stdin.fileno() in ready:
                return
            channel, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                _be(channel, main)
            channel.close()


def _be(channel: socket.socket, main: Any) -> None:
    """In the child: be the program that is asked for, and say with which code it ended."""
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        data, fds, _, _ = socket.recv_fds(channel, REQUEST_BYTES, 2)
        size = int.from_bytes(data[:4], "big")
        while len(data) < size + 4:
            data += channel.recv(REQUEST_BYTES)
        request = json.loads(data[4:])
        channel.sendall(os.getpid().to_bytes(4, "big"))
        null = os.open(os.devnull, os.O_RDONLY)
        for number, descriptor in enumerate((null, *fds)):
            os.dup2(descriptor, number)
            os.close(descriptor)
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update(request["env"])
        time.tzset()
        sys.argv = ["supervisor", *request["words"]]
        try:
            code = main(request["words"])
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else 0 if error.code is None else 1
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:  # noqa: BLE001 (as the interpreter does at its end)
        import traceback

        traceback.print_exc()
        sys.stderr.flush()
    finally:
        with contextlib.suppress(OSError):
            channel.sendall(bytes([code & 0xFF]))
        os._exit(code & 0xFF)


if __name__ == "__main__":
    _serve(sys.argv[1])
