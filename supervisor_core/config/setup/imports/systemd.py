"""A systemd service: its unit, with the drop-ins and environment files, becomes a worker."""

from __future__ import annotations

import getpass
import os
import re
import signal
import socket
from collections.abc import Iterator, Mapping
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
    word,
)
from supervisor_core.config.setup.imports.systemd_settings import reason_for
from supervisor_core.config.setup.unit_files import (
    UnitSetting,
    UnitSyntaxError,
    read_settings,
    read_variables,
    seconds_in,
    split_words,
)
from supervisor_core.config.worker_settings import SAFE, SIGNALS

SUFFIX = ".service"
FOLDERS = ("/usr/lib/systemd/system", "/lib/systemd/system", "/run/systemd/system", "/etc/systemd/system")
"""The folders of a system's drop-ins, in ascending priority."""

STOP_SECONDS, LONGEST_SECONDS = 90, 604_800
"""systemd's default of `TimeoutStopSec`; it's written, because the default here is another one."""

RESTARTS, LONG_SECONDS = 5, 10.0
"""systemd's defaults of `StartLimitBurst` and `StartLimitIntervalSec`."""

MOST_RESTARTS = 3600
POLICIES = {"no": "never", "": "never", "always": "always", "on-success": "always"}
POLICIES |= dict.fromkeys(("on-failure", "on-abnormal", "on-abort", "on-watchdog"), "on-failure")
EXACT = ("no", "always", "on-failure", "")
NOTIFYING = ("notify", "notify-reload", "dbus")
_SECTIONS = ("Unit", "Service", "Install")
_VARIABLE = re.compile(r"\$\$|\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_WHOLE = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")
_PREFIXES = {
    "@": "the name in argv[0] isn't set",
    "-": "with restart.policy on-failure, a failure counts",
    "+": "it runs with the supervisor's rights",
    "!": "it runs with the supervisor's rights",
}


def recognize(old: OldFile) -> bool:
    """True for a unit of a service."""
    return old.path.suffix == SUFFIX or bool(re.search(r"^\s*\[Service\]\s*$", old.text, re.MULTILINE))


def source_of(path: Path) -> Path:
    """The file to read: for an instance such as `fetcher@north.service` that is no file, its template."""
    prefix, at, _ = path.name.partition("@")
    return path.with_name(f"{prefix}@{SUFFIX}") if at and path.suffix == SUFFIX and not path.exists() else path


def convert(old: OldFile) -> Conversion:
    """The worker; `ConfigError` for a service that can't be one, such as a oneshot."""
    try:
        return _Converter(old).convert()
    except UnitSyntaxError as error:
        raise ConfigError(f"{error}.") from None


class _Converter:
    def __init__(self, old: OldFile) -> None:
        self._old = old
        self._name = old.path.name.removesuffix(SUFFIX)
        self._notes: list[str] = []
        self._of_user = "user" in old.path.parts and "systemd" in old.path.parts
        self._home = str(Path.home()) if self._of_user else "/root"
        self._specifiers = _specifiers(self._name, self._home, of_user=self._of_user)
        self._settings = [each for each in self._read() if each.value or each.section in _SECTIONS]
        self._mapped: set[str] = {"WantedBy", "RequiredBy", "UpheldBy", "StartLimitInterval", "StartLimitIntervalSec"}
        self._mapped |= {"StartLimitBurst"}
        self._environment: dict[str, str] = {}
        self._secrets: dict[str, str] = {}
        """The variables of the new configuration that stand for secrets, by the unit's variables."""

    def convert(self) -> Conversion:
        if self._name.endswith("@"):
            raise ConfigError(
                f"{self._old.path.name} is a template.",
                remedy=f"Name its instances: {self._name}NAME{SUFFIX}.",
            )
        self._check_type()
        self._read_environment()
        worker: dict[str, Any] = {"command": self._command(), "cwd": self._folder()}
        if is_in_checkout(Path(worker["cwd"])):
            worker["code"] = {"path": worker["cwd"]}
        if self._environment:
            worker["env"] = {name: self._value(name) for name in self._environment}
        worker["stop_signal"] = self._signal()
        stop = self._seconds("TimeoutStopSec", self._seconds("TimeoutSec", STOP_SECONDS))
        worker["stop_timeout_seconds"] = min(stop, LONGEST_SECONDS)
        worker["heartbeat_max_age_seconds"] = 0
        worker["restart"] = self._restart()
        self._own_user()
        made = self._old.names.worker_id(self._name)
        if made != self._name:
            self._notes.append(f"{self._name} is the worker {made}: an id has letters, digits, dots and hyphens.")
        notes = (*self._notes, *self._old.names.notes())
        return Conversion({"workers": {made: worker}}, tuple(self._leftovers()), notes)

    def _leftovers(self) -> Iterator[Leftover]:
        for each in self._settings:
            if each.value and each.key not in self._mapped:
                yield Leftover(each.key, reason_for(each.key), each.file, each.line)

    # --- the unit and its drop-ins

    def _read(self) -> Iterator[UnitSetting]:
        yield from read_settings(self._old.text, self._old.path.name)
        for path in self._drop_ins():
            yield from read_settings(self._old.read(path), str(path))

    def _drop_ins(self) -> list[Path]:
        """The drop-ins in order, by name. One in a folder of higher priority replaces one of the same name."""
        here = self._old.path.parent
        folders = [here] if str(here) not in FOLDERS else [Path(each) for each in FOLDERS]
        prefix, at, _ = self._name.partition("@")
        names = [*([f"{prefix}@{SUFFIX}.d"] if at else []), f"{self._name}{SUFFIX}.d"]
        found = {path.name: path for name in names for folder in folders for path in (folder / name).glob("*.conf")}
        return [found[name] for name in sorted(found)]

    # --- the command

    def _check_type(self) -> None:
        setting = self._last("Type")
        kind = setting.value if setting else "simple"
        where = self._place(setting) if setting else ""
        if kind == "oneshot":
            raise ConfigError(f"{where}: Type=oneshot runs once, and a worker keeps running. Leave it to systemd.")
        if kind == "forking":
            self._notes.append(f"{where}: Type=forking. Change its options, so that it stays in the foreground.")
        if kind in NOTIFYING:
            self._notes.append(f"{where}: Type={kind}. A start has succeeded after start_grace_seconds instead.")

    def _command(self) -> list[str]:
        starts = self._all("ExecStart")
        if not starts:
            raise ConfigError(f"{self._old.path.name} has no ExecStart.")
        setting = starts[-1]
        words = self._words(setting)
        if len(starts) > 1 or ";" in words:
            raise ConfigError(f"{self._place(setting)}: ExecStart has several commands. Put them into a script.")
        signs = re.match(r"[@\-:+!|]*", words[0])[0] if words else ""  # type: ignore[index]
        words = [words[0][len(signs) :], *words[1:]] if words else []
        if "|" in signs or not words or not words[0]:
            raise ConfigError(f"{self._place(setting)}: ExecStart must name a program. Write sh -c for a shell.")
        for sign in dict.fromkeys(signs):
            if sign in _PREFIXES:
                self._notes.append(f"{self._place(setting)}: the prefix {sign} is dropped: {_PREFIXES[sign]}.")
        if "@" in signs:
            del words[1:2]
        program, *arguments = (self._expanded(each, setting) for each in words)
        arguments = [";" if each == "\\;" else each for each in arguments]
        if ":" in signs:
            return [word(program), *map(word, arguments)]
        return [word(program), *(each for argument in arguments for each in self._substituted(argument, setting))]

    def _substituted(self, text: str, setting: UnitSetting) -> list[str]:
        """A word of the command with its variables replaced, as words of the new one."""
        if whole := _WHOLE.fullmatch(text):
            if whole[1] in self._environment and whole[1] not in self._secrets:
                return [word(each) for each in split_words(self._environment[whole[1]])]
            value = self._variable(whole[1], setting)
            return [value] if value else []
        pieces: list[str] = []
        at = 0
        for found in _VARIABLE.finditer(text):
            pieces += [word(text[at : found.start()]), self._variable(found[1], setting) if found[1] else "$$"]
            at = found.end()
        return ["".join([*pieces, word(text[at:])])]

    def _variable(self, name: str, setting: UnitSetting) -> str:
        if name in self._environment:
            return self._value(name) if name in self._secrets else word(self._environment[name])
        if name in SAFE:
            return f"${{{name}}}"
        self._notes.append(f"{self._place(setting)}: ${name} isn't set in the unit, so it's left out.")
        return ""

    # --- the environment

    def _read_environment(self) -> None:
        for setting in self._all("Environment"):
            for assignment in self._words(setting):
                name, equals, value = self._expanded(assignment, setting).partition("=")
                if equals:
                    self._set(name, value)
        for setting in self._all("PassEnvironment"):
            for name in setting.value.split():
                self._environment[name], self._secrets[name] = "", f"{name}:"
        for setting in self._all("EnvironmentFile"):
            self._read_environment_file(setting)
        for setting in self._all("UnsetEnvironment"):
            for name in self._words(setting):
                self._environment.pop(name.partition("=")[0], None)

    def _read_environment_file(self, setting: UnitSetting) -> None:
        pattern = Path(self._expanded(setting.value.removeprefix("-"), setting))
        anchor = Path(pattern.anchor or "/")
        try:
            paths = sorted(anchor.glob(str(pattern.relative_to(anchor)))) if "*" in pattern.name else [pattern]
            for path in paths:
                for name, value in read_variables(self._old.read(path)).items():
                    self._set(name, value)
        except (ConfigError, ValueError, OSError) as error:
            reason = f"{self._place(setting)}: {str(error).rstrip('.')}."
            if not setting.value.startswith("-"):
                raise ConfigError(
                    f"{reason} Let this user read it, or write EnvironmentFile=-… to leave it out."
                ) from error
            if pattern.exists():
                self._notes.append(f"{reason} Add its variables to the worker's env.")

    def _set(self, name: str, value: str) -> None:
        self._secrets.pop(name, None)
        self._environment[name] = value
        if is_secret(name, value):
            self._secrets[name] = self._old.names.secret(self._name, name, value)

    def _value(self, name: str) -> str:
        """The value of a variable in the new configuration."""
        if name in self._secrets:
            return f"${{{self._secrets[name]}}}"
        return self._environment[name].replace("$", "$$")

    # --- other settings

    def _folder(self) -> str:
        setting = self._last("WorkingDirectory")
        if setting is None:
            return self._home if self._of_user else "/"
        text = self._expanded(setting.value.removeprefix("-"), setting)
        if text == "~":
            user = self._last("User")
            text = str(in_home(f"~{user.value}")) if user else self._home
        return text.replace("$", "$$")

    def _restart(self) -> dict[str, Any]:
        setting = self._last("Restart")
        value = setting.value if setting else ""
        section: dict[str, Any] = {"policy": POLICIES.get(value, "never")}
        if setting and value not in EXACT:
            self._notes.append(f"{self._place(setting)}: Restart={value} became {section['policy']}. Check it.")
        if self._last("RestartSec"):
            section["backoff_seconds"] = self._seconds("RestartSec", 0.0)
        if section["policy"] != "never":
            section |= self._limit()
        return section

    def _limit(self) -> dict[str, Any]:
        burst, interval = self._last("StartLimitBurst"), self._last("StartLimitIntervalSec", "StartLimitInterval")
        if burst is None and interval is None:
            return {}
        count = int(burst.value) if burst and re.fullmatch(r"[0-9]{1,6}", burst.value) else RESTARTS
        seconds = seconds_in(interval.value) if interval else LONG_SECONDS
        if not seconds:
            return {"max_per_hour": MOST_RESTARTS}
        where = self._place(burst or interval)  # type: ignore[arg-type]
        self._notes.append(
            f"{where}: at most {count} restarts in {seconds:g} s became max_per_hour: {count}; then it's quarantined."
        )
        return {"max_per_hour": min(count, MOST_RESTARTS)}

    def _signal(self) -> str:
        setting = self._last("KillSignal")
        if setting is None:
            return "TERM"
        name = setting.value.upper().removeprefix("SIG")
        if name.isdigit() and int(name) in set(signal.Signals):
            name = signal.Signals(int(name)).name.removeprefix("SIG")
        if name not in SIGNALS:
            self._notes.append(f"{self._place(setting)}: KillSignal={setting.value} became TERM. Check it.")
        return name if name in SIGNALS else "TERM"

    def _own_user(self) -> None:
        """No note if the service's user is the one who runs this."""
        setting = self._last("User", mark=False)
        if setting and setting.value in (getpass.getuser(), _uid()):
            self._mapped.add("User")

    # --- reading

    def _all(self, *keys: str) -> list[UnitSetting]:
        """The assignments since the last empty one, which resets a list."""
        self._mapped.update(keys)
        found: list[UnitSetting] = []
        for each in self._settings:
            if each.key in keys:
                found = [*found, each] if each.value else []
        return found

    def _last(self, *keys: str, mark: bool = True) -> UnitSetting | None:
        before = set(self._mapped)
        found = self._all(*keys)
        self._mapped = self._mapped if mark else before
        return found[-1] if found else None

    def _seconds(self, key: str, default: float) -> float:
        setting = self._last(key)
        seconds = seconds_in(setting.value) if setting else default
        if seconds is None and setting:
            self._notes.append(f"{self._place(setting)}: {key}={setting.value} isn't a time span, and isn't converted.")
            return default
        seconds = float(default if seconds is None else seconds)
        return int(seconds) if seconds.is_integer() else seconds

    def _words(self, setting: UnitSetting) -> list[str]:
        try:
            return split_words(setting.value)
        except UnitSyntaxError as error:
            raise UnitSyntaxError(f"{self._place(setting)}: {setting.key} {error}") from None

    @staticmethod
    def _place(setting: UnitSetting) -> str:
        return f"{setting.file} line {setting.line}"

    def _expanded(self, text: str, setting: UnitSetting) -> str:
        """The text with its specifiers replaced."""

        def value(found: re.Match[str]) -> str:
            known = self._specifiers.get(found[1])
            if known is None:
                self._notes.append(f"{self._place(setting)}: replace %{found[1]} in {setting.key} by its value.")
            return found[0] if known is None else known

        return re.sub(r"%(.)", value, text)


def _specifiers(name: str, home: str, *, of_user: bool) -> Mapping[str, str]:
    """The specifiers of systemd.unit(5) whose values are known, for a unit of this name."""
    prefix, _, instance = name.partition("@")
    host, last = socket.gethostname(), prefix.rpartition("-")[2]
    values = {"%": "%", "n": f"{name}{SUFFIX}", "N": name, "p": prefix, "i": instance, "H": host, "h": home, "j": last}
    values |= {"P": _unescaped(prefix), "I": _unescaped(instance), "J": _unescaped(last), "l": host.partition(".")[0]}
    values["f"] = f"/{_unescaped(instance or prefix).lstrip('/')}"
    if not of_user:
        values |= {"u": "root", "U": "0", "t": "/run"}
        return {**values, "S": "/var/lib", "C": "/var/cache", "L": "/var/log", "E": "/etc"}
    state = f"{home}/.local/state"
    values |= {"u": getpass.getuser(), "U": _uid(), "t": f"/run/user/{_uid()}"}
    return {**values, "S": state, "C": f"{home}/.cache", "L": f"{state}/log", "E": f"{home}/.config"}


def _uid() -> str:
    return str(os.getuid()) if os.name != "nt" else ""


def _unescaped(text: str) -> str:
    r"""A part of a unit's name as it was: `-` is a slash, and `\x2d` a hyphen."""
    return re.sub(r"\\x([0-9a-f]{2})", lambda code: chr(int(code[1], 16)), text.replace("-", "/"))
