"""pm2: each process of an app in an ecosystem file, or in the list that `pm2 save` wrote, becomes a worker."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from supervisor_core.common.errors import ConfigError
from supervisor_core.config.setup.imports.conversion import (
    Conversion,
    Leftover,
    OldFile,
    in_home,
    is_in_checkout,
    is_secret,
    leaves,
    word,
    yaml_lines,
)
from supervisor_core.config.setup.imports.object_literals import NotALiteralError, read_literal
from supervisor_core.config.worker_settings import SAFE

SCRIPTS = (".js", ".cjs", ".mjs")
DUMP = "dump.pm2"
_WHOLE = re.compile(r"[0-9]{1,6}")
NODE = "node -e 'import(process.argv[1]).then(m => console.log(JSON.stringify(m.default)))'"
"""Evaluates a file and prints its value as JSON."""

MOST_PROCESSES, MOST_RESTARTS = 1000, 3600
STOP_MILLISECONDS = 1600
"""pm2's default of `kill_timeout`; it's written, because the default here is another one."""

INTERPRETERS = {".js": "node", ".cjs": "node", ".mjs": "node", ".py": "python", ".sh": "bash", ".rb": "ruby"}
INTERPRETERS |= {".php": "php", ".pl": "perl", ".ts": "bun", ".tsx": "bun", ".coffee": "coffee", ".ls": "lsc"}

_OUTPUT = "stdout and stderr are captured together, in the state folder"
_WATCH = "nothing restarts when a file changes; `supervisor update` takes new code, and can be undone"
_USER = "a worker runs as the supervisor's user; for another user, run another supervisor"
_CLUSTER = "each worker has its own port; put a proxy in front of them"
_READY = "a start succeeds once the worker has run for start_grace_seconds"
_PM2 = "it's about pm2's own work"
REASONS = {
    _OUTPUT: "out_file out output out_log error_file error err err_file err_log log_file log disable_logs log_type "
    "log_date_format time merge_logs combine_logs",
    _WATCH: "watch watch_delay ignore_watch watch_options",
    _USER: "uid user gid username",
    _READY: "wait_ready listen_timeout min_uptime",
    "copy into env what this host uses": "env_* filter_env append_env_to_name",
    "memory isn't limited; begin the command with prlimit": "max_memory_restart",
    "`supervisor schedule` can restart the worker at set times": "cron_restart cron",
    "stop_signal asks the worker to stop": "shutdown_with_message",
    "every exit code restarts the worker": "stop_exit_codes",
    "every descendant is stopped": "treekill kill_retry_time",
    "code.remote and code.branch name what `supervisor update` takes": "deploy post_update install_url",
    _PM2: "pid_file pid source_map_support disable_source_map_support vizion force trace disable_trace v8 pmx "
    "automation event_loop_inspector deep_monitoring io write windowsHide execute_command",
}
"""The settings without a place, or patterns of them, by the reason, which says what to do instead."""
_UNKNOWN = "nothing here corresponds to it"

OF_A_SESSION = (
    "_ SHELL TERM* PWD OLDPWD SHLVL SSH_* XDG_* LS_COLORS COLORTERM DISPLAY MAIL DBUS_* LESS* HIST* NVM_* SUDO_* PM2_* "
    "pm_* LC_* name status unique_id namespace"
)
"""Variables that `pm2 save` took from the shell, or made."""


def recognize(old: OldFile) -> bool:
    """True for an ecosystem file or a saved list."""
    if old.path.suffix in SCRIPTS or old.path.name == DUMP:
        return True
    apps = _apps_of(old.document)
    if apps:
        return all(isinstance(each, Mapping) and ("script" in each or "pm_exec_path" in each) for each in apps)
    return old.document is None and re.search(r"[\"']?apps[\"']?\s*:\s*\[", old.text) is not None


def convert(old: OldFile) -> Conversion:
    """The new configuration; `ConfigError` for a file that only Node.js can read, with the command for it."""
    value, lines = _read(old)
    try:
        return _Converter(old, value, lines).convert()
    except ValueError as error:  # a number with thousands of digits, a path with a NUL
        raise ConfigError(f"{old.path.name} has an invalid value: {error}.") from None


def _read(old: OldFile) -> tuple[Any, Mapping[str, int]]:
    """The value of the file, and the lines of its parts."""
    if old.path.suffix not in SCRIPTS and isinstance(old.document, Mapping | list):
        return old.document, yaml_lines(old.text)
    try:
        found = read_literal(old.text, str(old.path.parent))
    except NotALiteralError as error:
        path = shlex.quote(str(old.path))
        raise ConfigError(
            f"{old.path.name} line {error.line}: {error}.",
            remedy=f"Let Node.js write its value: {NODE} {path} > ecosystem.json, and import that file.",
        ) from None
    return found.value, found.lines


def _apps_of(value: object) -> list[Any]:
    """The apps of a file: under `apps`, a list alone, or one app alone."""
    if isinstance(value, Mapping):
        value = value.get("apps", [value] if "script" in value else [])
    return value if isinstance(value, list) else []


class _Converter:
    def __init__(self, old: OldFile, value: object, lines: Mapping[str, int]) -> None:
        self._old = old
        self._value = value
        self._lines = lines
        self._notes: list[str] = []
        self._leftovers: list[Leftover] = []

    def convert(self) -> Conversion:
        apps = _apps_of(self._value)
        if not apps:
            raise ConfigError(f"{self._old.path.name} has no apps.")
        key = "apps" if isinstance(self._value, Mapping) and "apps" in self._value else ""
        workers: dict[str, Any] = {}
        for place, app in enumerate(apps):
            here = f"{key}[{place}]" if key or isinstance(self._value, list) else ""
            if not isinstance(app, Mapping):
                raise ConfigError(f"{self._old.path.name} line {self._lines.get(here, 1)}: must be an object.")
            converted = _App(self._old, app, f"{self._old.path.name} line {self._lines.get(here, 1)}", self._notes)
            for name, worker in converted.workers():
                made = self._old.names.worker_id(name)
                workers[made] = worker
                if made != name:
                    self._notes.append(f"{name} is the worker {made}: an id has letters, digits, dots and hyphens.")
            self._leave(app, here, converted.mapped, known_only=converted.saved)
        if key and isinstance(self._value, Mapping):
            self._leave({name: each for name, each in self._value.items() if name != key}, "", set())
        document: dict[str, Any] = {"workers": workers}
        if teams := list(dict.fromkeys(each["team"] for each in workers.values() if "team" in each)):
            document["teams"] = {name: {} for name in teams}
        notes = (*self._notes, *self._old.names.notes())
        return Conversion(document, tuple(self._leftovers), notes)

    def _leave(self, part: Mapping[Any, Any], here: str, mapped: set[str], *, known_only: bool = False) -> None:
        for name, value in part.items():
            reason = _reason(str(name))
            if name in mapped or (known_only and reason == _UNKNOWN) or (reason == _WATCH and value is False):
                continue
            key = f"{here}.{name}" if here else str(name)
            for each, _ in leaves(value, key):
                line = self._lines.get(each, self._lines.get(key, 0))
                self._leftovers.append(Leftover(each, reason, self._old.path.name, line))


class _App:
    """One app: as it's written in an ecosystem file, or as `pm2 save` wrote one of its processes."""

    def __init__(self, old: OldFile, app: Mapping[Any, Any], place: str, notes: list[str]) -> None:
        self._old = old
        self._app = app
        self._place = place
        self._notes = notes
        self.mapped: set[str] = set()
        """The settings that have a place in the new configuration."""
        self.saved = "pm_exec_path" in app

    def workers(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Each process with its name."""
        folder = self._folder()
        script = self._text("script", "exec", "cmd", "command", "pm_exec_path")
        if not script:
            raise ConfigError(f"{self._place}: the app has no script.")
        name = self._text("name") or Path(script.split()[0]).stem
        command, python = self._command(script, folder)
        worker: dict[str, Any] = {"command": command, "cwd": str(folder).replace("$", "$$")}
        if is_in_checkout(folder):
            worker["code"] = {"path": worker["cwd"]}
        env = {**({"PYTHONUNBUFFERED": "1"} if python else {}), **self._environment(name)}
        worker |= {
            "stop_signal": "INT",
            "stop_timeout_seconds": self._seconds("kill_timeout") or STOP_MILLISECONDS / 1000,
        }
        worker |= {"heartbeat_max_age_seconds": 0, "restart": self._restart()}
        team = re.sub(r"[^A-Za-z0-9._-]+", "-", self._text("namespace")).strip("._-")
        if team and team != "default":
            worker["team"] = team
        count = self._instances(name)
        variable = self._text("instance_var") or "NODE_APP_INSTANCE"
        for number in range(count):
            own = env if count == 1 else {**env, variable: str(number), **self._incremented(number)}
            yield name if count == 1 else f"{name}-{number}", {**worker, **({"env": own} if own else {})}

    def _command(self, script: str, folder: Path) -> tuple[list[str], bool]:
        """The command, and if Python runs it."""
        interpreter = self._text("exec_interpreter", "interpreter")
        arguments = [word(each) for each in self._words("args")]
        options = [word(each) for each in self._words("node_args", "interpreter_args", "interpreterArgs")]
        if re.search(r"\s", script) and not self.saved:
            return ["bash", "-c", word(script)], False
        path = folder / script
        if not path.exists() and (found := shutil.which(script)):
            path = Path(found)
        elif not path.exists():
            self._notes.append(f"{self._place}: the script {path} doesn't exist on this host.")
        if not interpreter:
            interpreter = INTERPRETERS.get(path.suffix) or ("none" if os.access(path, os.X_OK) else "node")
        if interpreter == "none":
            return [word(str(path)), *arguments], False
        if interpreter == "python" and not shutil.which("python"):
            interpreter = "python3"
        if "@" in interpreter:
            self._notes.append(f"{self._place}: write the path of {interpreter} into the command.")
        return [word(interpreter), *options, word(str(path)), *arguments], "python" in interpreter

    def _folder(self) -> Path:
        text = self._text("cwd", "pm_cwd")
        if not text:
            self._notes.append(f"{self._place}: the app has no cwd, so it's the folder of the file. Check it.")
        return Path(os.path.normpath(self._old.path.parent / in_home(text)))

    def _environment(self, owner: str) -> dict[str, str]:
        given = self._app.get("env")
        found: dict[str, str] = {}
        if isinstance(given, Mapping):
            self.mapped.add("env")
            skipped = (*SAFE, *OF_A_SESSION.split()) if self.saved else ()
            found = {
                str(name): value if isinstance(value, str) else json.dumps(value, default=str)
                for name, value in given.items()
                if value is not None and not any(fnmatch(str(name), each) for each in skipped)
            }
        if self.saved and found:
            self._notes.append(f"{self._place}: pm2 saved the environment of a shell, too. Check the worker's env.")
        if port := self._app.get("port"):
            self.mapped.add("port")
            found["PORT"] = str(port)
        return {name: self._value(owner, name, value) for name, value in found.items()}

    def _value(self, owner: str, name: str, value: str) -> str:
        if is_secret(name, value):
            return f"${{{self._old.names.secret(owner, re.sub(r'[^A-Za-z0-9_]', '_', name), value)}}}"
        return value.replace("$", "$$")

    def _restart(self) -> dict[str, Any]:
        section: dict[str, Any] = {"policy": "never" if self._app.get("autorestart") is False else "always"}
        self.mapped.add("autorestart")
        delay = self._seconds("exp_backoff_restart_delay") or self._seconds("restart_delay")
        self.mapped |= {"restart_delay"}
        if delay:
            section["backoff_seconds"] = delay
        if (most := self._number("max_restarts")) is not None:
            section["max_per_hour"] = min(int(most), MOST_RESTARTS)
            self._notes.append(f"{self._place}: max_restarts counts every restart of an hour; then it's quarantined.")
        return section

    def _instances(self, name: str) -> int:
        given = self._app.get("instances", 1)
        self.mapped |= {"instances", "exec_mode"}
        if self.saved:
            return 1
        cores = os.cpu_count() or 1
        text = str(given)
        count = {"max": cores, "0": cores, "-1": max(cores - 1, 1)}.get(
            text, int(text) if _WHOLE.fullmatch(text) else 0
        )
        if not 0 < count <= MOST_PROCESSES:
            raise ConfigError(f"{self._place}: instances must be max, or a number up to {MOST_PROCESSES}.")
        if str(self._app.get("exec_mode", "")).startswith("cluster") or (count > 1 and "exec_mode" not in self._app):
            self._notes.append(
                f"{self._place}: {name} is in cluster mode, where processes share a port. Here {_CLUSTER}."
            )
        return count

    def _incremented(self, number: int) -> dict[str, str]:
        variable = self._text("increment_var")
        first = self._app.get("env", {}).get(variable) if isinstance(self._app.get("env"), Mapping) else None
        return {variable: str(int(str(first)) + number)} if variable and _WHOLE.fullmatch(str(first)) else {}

    # --- reading

    def _text(self, *names: str) -> str:
        """The first of these settings that is text."""
        for name in names:
            value = self._app.get(name)
            if isinstance(value, str | int) and not isinstance(value, bool) and str(value).strip():
                self.mapped.add(name)
                return str(value).strip()
        return ""

    def _words(self, *names: str) -> list[str]:
        for name in names:
            value = self._app.get(name)
            if isinstance(value, list):
                self.mapped.add(name)
                return [str(each) for each in value]
        text = self._text(*names)
        try:
            return shlex.split(text)
        except ValueError:
            return text.split()

    def _number(self, name: str) -> float | None:
        value = self._app.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < float("inf"):
            self.mapped.add(name)
            return value
        return None

    def _seconds(self, name: str) -> float:
        """A number of milliseconds, at most a week."""
        seconds = min((self._number(name) or 0) / 1000, 604_800.0)
        return int(seconds) if seconds.is_integer() else seconds


def _reason(key: str) -> str:
    for reason, keys in REASONS.items():
        if any(fnmatch(key, each) for each in keys.split()):
            return reason
    return _UNKNOWN
