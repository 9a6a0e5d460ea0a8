"""The program as a process of its own without the half second of imports: forked from one that has made them.

It is the real `main`, in a process with its own arguments, folder, environment and output. Hundreds of tests call the
command line or start a daemon to look at something else; those about the program itself start it from nothing.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import gc
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import IO, Any, NoReturn

from tests.support.daemon import short_silence
from tests.support.daemon.fleet_faults import namespaces
from tests.support.processes import process_backends
from tests.support.programs import exercise
from tests.support.slack import short_pace

REQUEST_BYTES = 256 * 1024
ANSWER_BYTES = 4
FLUSH_FAILED = 120
"""Python's exit code when it can't write the rest of its output."""

REAP = b"r"
COMMAND_LINE = "supervisor_core.cli"
ARMED = "tests.support.programs.armed"

PACKAGES = ("supervisor_core", "bot")
COLD = ("demo", "playground", "migrations", "__main__")
"""Parts of names of modules that no daemon imports, or that run when they are imported."""

BESIDE = ("encodings.idna", "importlib.metadata", "sqlalchemy.dialects.sqlite", ARMED)

_lock = threading.Lock()
_server: tuple[int, subprocess.Popen[bytes], Path] | None = None


class WarmProcess:
    """A process that was forked: to whoever holds it like a `Popen`, and a zombie until it is waited for."""

    def __init__(
        self,
        words: Sequence[str],
        cwd: Path,
        env: Mapping[str, str],
        out: IO[Any],
        err: IO[Any],
        *,
        module: str = COMMAND_LINE,
        forks_daemons: bool = False,
    ) -> None:
        self.args = [module, *words]
        self.returncode: int | None = None
        request = {"module": module, "words": list(words), "cwd": str(cwd), "env": dict(env), "forks": forks_daemons}
        data = json.dumps(request).encode()
        fds = array.array("i", [out.fileno(), err.fileno()])
        self._channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._channel.connect(str(_address()))
        self._channel.sendmsg([len(data).to_bytes(4, "big") + data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
        self.pid = self._number()

    def poll(self) -> int | None:
        """The exit code, or None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, once it has ended."""
        if self.returncode is None:
            ready, _, _ = select.select([self._channel], [], [], timeout)
            if not ready:
                assert timeout is not None
                raise subprocess.TimeoutExpired(self.args, timeout)
            code = self._number()
            self._channel.sendall(REAP)
            self._channel.recv(1)
            self._channel.close()
            self.returncode = code
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _number(self) -> int:
        data = self._channel.recv(ANSWER_BYTES, socket.MSG_WAITALL)
        assert len(data) == ANSWER_BYTES, "the warm server has ended"
        return int.from_bytes(data, "big", signed=True)


def run(
    words: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    timeout: float,
    *,
    module: str = COMMAND_LINE,
    forks_daemons: bool = False,
) -> subprocess.CompletedProcess[str]:
    """`supervisor words…` to its end, like `subprocess.run` with its output captured.

    With `forks_daemons`, the daemon that it starts is forked as well, and isn't the program from nothing.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = WarmProcess(words, cwd, env, out, err, module=module, forks_daemons=forks_daemons)
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode())
        return subprocess.CompletedProcess(["supervisor", *words], code, *texts)


def warm_words(program: Sequence[str]) -> tuple[str, list[str]] | None:
    """The module and its first words, where this program is one that can be forked."""
    if tuple(program[:2]) == (sys.executable, "-m") and program[2] in (COMMAND_LINE, ARMED):
        return program[2], list(program[3:])
    return None


def _address() -> Path:
    """Where the server of this test process listens; started when it is first needed."""
    global _server  # noqa: PLW0603 (one for each process that runs tests)
    with _lock:
        if _server is None or _server[0] != os.getpid() or _server[1].poll() is not None:
            folder = tempfile.mkdtemp(prefix="warm-")
            address = Path(folder) / "s"
            env = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.programs.warm", str(address)],
                cwd=Path(__file__).parents[3],
                env=env,
                stdin=subprocess.PIPE,
            )
            _server = (os.getpid(), process, address)
            atexit.register(_end, process, address)
            deadline = time.monotonic() + 60
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


class _Server:
    """The warm process: it listens, forks for each request, and says with which code each child ended."""

    def __init__(self, address: str) -> None:
        self._poll = select.poll()
        self._children: dict[int, socket.socket] = {}
        self._ended: dict[int, int] = {}
        self._nobodys: set[int] = set()
        self._woken, wakes = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(wakes, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
        self._wakes = wakes
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(f"{address}.new")
        self._listener.listen(64)
        os.rename(f"{address}.new", address)  # noqa: PTH104 (there before anybody connects)
        for number in (self._listener.fileno(), self._woken, sys.stdin.fileno()):
            self._poll.register(number, select.POLLIN | select.POLLHUP)

    def next(self) -> tuple[dict[str, Any], list[int]] | None:
        """Serve until this is a child, with its request; None in the server itself at the end."""
        while True:
            ready = {number for number, _ in self._poll.poll()}
            if sys.stdin.fileno() in ready:
                return None
            if self._woken in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._woken, 4096)
                self._look()
            for pid, channel in list(self._children.items()):
                if channel.fileno() in ready:
                    self._reap(pid, channel)
            if self._listener.fileno() in ready:
                channel, _ = self._listener.accept()
                request, fds = _request(channel)
                pid = os.fork()
                if pid == 0:
                    self._let_go()
                    channel.close()
                    return request, fds
                for number in fds:
                    os.close(number)
                self._children[pid] = channel
                self._poll.register(channel.fileno(), select.POLLIN | select.POLLHUP)
                self._answer(channel, pid)
                self._look()  # it may have ended while nobody knew it

    def _look(self) -> None:
        """Say of those that ended with which code, and leave them as zombies, as a child is until it is waited for."""
        self._nobodys = {pid for pid in self._nobodys if os.waitpid(pid, os.WNOHANG) == (0, 0)}
        for pid, channel in self._children.items():
            if pid in self._ended:
                continue
            ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is not None:
                self._ended[pid] = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
                self._answer(channel, self._ended[pid])

    def _reap(self, pid: int, channel: socket.socket) -> None:
        """Whoever held it has its code, or is gone before it has ended."""
        self._poll.unregister(channel.fileno())
        del self._children[pid]
        if self._ended.pop(pid, None) is None:
            self._nobodys.add(pid)
            self._look()
        else:
            os.waitpid(pid, 0)
            with contextlib.suppress(OSError):
                channel.recv(1)
                channel.sendall(REAP)
        channel.close()

    def _answer(self, channel: socket.socket, number: int) -> None:
        with contextlib.suppress(OSError):
            channel.sendall(number.to_bytes(ANSWER_BYTES, "big", signed=True))

    def _let_go(self) -> None:
        """In the child: nothing of the server's is open any more."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._listener.close()
        for channel in self._children.values():
            channel.close()
        os.close(self._woken)
        os.close(self._wakes)


def _request(channel: socket.socket) -> tuple[dict[str, Any], list[int]]:
    data, fds, _, _ = socket.recv_fds(channel, REQUEST_BYTES, 2)
    size = int.from_bytes(data[:4], "big")
    while len(data) < size + 4:
        data += channel.recv(REQUEST_BYTES)
    request: dict[str, Any] = json.loads(data[4:])
    return request, fds


def _be(request: dict[str, Any], fds: Sequence[int]) -> NoReturn:
    """In the child: be the program that is asked for, to its end."""
    null = os.open(os.devnull, os.O_RDONLY)
    for number, descriptor in enumerate((null, *fds)):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    if str(process_backends.FOLDER) in os.environ.get("PYTHONPATH", ""):
        process_backends.use_portable()
    short_pace.use_if_wanted(os.environ)
    short_silence.use_if_wanted(os.environ)
    namespaces.use_if_wanted(os.environ)
    if request["forks"]:
        from supervisor_core.daemon.control import lifecycle as starting_daemon

        setattr(starting_daemon, "_spawn", _forked)  # noqa: B010 (a door that is not for others to use)
    module, words = request["module"], request["words"]
    if module == COMMAND_LINE:
        from supervisor_core.cli import main

        sys.argv = ["supervisor", *words]
        _run_to_its_end(lambda: main(words))
    sys.argv[1:] = words
    _run_to_its_end(lambda: runpy.run_module(module, run_name="__main__", alter_sys=True))


def _run_to_its_end(program: Callable[[], object]) -> NoReturn:
    """End as Python does, but leave all objects to the kernel.

    To free those of two thousand modules takes longer than most commands, and copies the memory that the server shares.
    """
    code = 0
    try:
        result = program()
        code = result if isinstance(result, int) else 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
    except Exception:  # noqa: BLE001 (Python prints whatever a program raises)
        sys.excepthook(*sys.exc_info())
        code = 1
    getattr(threading, "_shutdown")()  # noqa: B009 (Python's own end: it waits for threads)
    getattr(atexit, "_run_exitfuncs")()  # noqa: B009 (see above)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            code = FLUSH_FAILED
    os._exit(code)


class _Forked:
    """What `start` holds of the daemon that it began."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def wait(self) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def _forked(state_dir: Path, words: Sequence[str]) -> _Forked:
    """What `start` does, but for the exec: a session of its own, and its words in the same file."""
    from supervisor_core.cli import main
    from supervisor_core.daemon.control.lifecycle import OUTPUT_NAME

    child = os.fork()
    if child:
        return _Forked(child)
    code = 1
    try:
        os.setsid()
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        with open(state_dir / OUTPUT_NAME, "wb", opener=lambda path, _: os.open(path, flags, 0o600)) as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        code = main(words[words.index("run") :])
        sys.stdout.flush()
        sys.stderr.flush()
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    finally:
        os._exit(code)


def _import_all() -> None:
    """What a daemon with everything and any command may import. No thread may be left of it."""
    for package in PACKAGES:
        path = import_module(package).__path__
        for module in pkgutil.walk_packages(path, f"{package}.", onerror=lambda _: None):
            if not set(COLD) & set(module.name.split(".")):
                import_module(module.name)
    for name in BESIDE:
        import_module(name)
    exercise.live_once()
    assert threading.active_count() == 1, "a process with threads can't be forked safely"
    sys.modules.pop(ARMED)  # it is run as the program
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    _import_all()
    asked = _Server(sys.argv[1]).next()
    if asked is not None:
        _be(*asked)
