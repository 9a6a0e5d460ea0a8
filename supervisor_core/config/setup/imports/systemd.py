"""A systemd service: its unit, with the drop-ins and environment files, becomes a worker."""

from __future__ import annotations

import getpass
import re
import socket
from pathlib import Path
from typing import Any

from supervisor_core.common.errors import ConfigError
from supervisor_core.config.raw import read_text
from supervisor_core.config.setup import unit_files
from supervisor_core.config.setup.imports.conversion import Conversion, folder_settings, word
from supervisor_core.config.setup.unit_files import UnitSetting, UnitSyntaxError, seconds_in, split_words
from supervisor_core.config.worker_settings import SAFE, SIGNALS

SUFFIX = ".service"
ETC = Path("/etc/systemd/system")
EXACT = {"no", "always", "on-failure", *SIGNALS, *(f"SIG{name}" for name in SIGNALS)}

STOP_SECONDS, LONGEST_SECONDS = 90, 604_800  # systemd's default, which is written because ours differs; and the most
POLICIES = {"no": "never", "always": "always", "on-success": "always"}
POLICIES |= dict.fromkeys(("on-failure", "on-abnormal", "on-abort", "on-watchdog"), "on-failure")
CONVERTED = {"Type", "ExecStart", "Environment", "EnvironmentFile", "WorkingDirectory", "Restart", "RestartSec"}
CONVERTED |= {"KillSignal", "TimeoutStopSec", "WantedBy"}
_VARIABLE = re.compile(r"\$\$|\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def recognize(path: Path, text: str) -> bool:
    return path.suffix == SUFFIX or bool(re.search(r"^\s*\[Service\]\s*$", text, re.MULTILINE))


def source_of(path: Path) -> Path:
    """The file to read: for an instance such as `fetcher@north.service` that is no file, its template."""
    prefix, at, _ = path.name.partition("@")
    return path.with_name(f"{prefix}@{SUFFIX}") if at and path.suffix == SUFFIX and not path.exists() else path


def convert(conversion: Conversion, path: Path, text: str) -> None:
    """Add the worker; `ConfigError` for a service that can't be one, such as a oneshot."""
    if path.name.endswith(f"@{SUFFIX}"):
        raise ConfigError(f"{path.name} is a template.", remedy=f"Name its instances: {path.stem}NAME{SUFFIX}.")
    try:
        _Unit(conversion, path, text).convert()
    except UnitSyntaxError as error:
        raise ConfigError(f"{error}.") from None


class _Unit:
    def __init__(self, conversion: Conversion, path: Path, text: str) -> None:
        self._conversion, self._file, self._name = conversion, path.name, path.name.removesuffix(SUFFIX)
        is_of_user = {"user", "systemd"} <= {*path.parts}
        self._home = str(Path.home()) if is_of_user else "/root"
        self._folder = self._home if is_of_user else "/"
        prefix, _, instance = self._name.partition("@")
        user = getpass.getuser() if is_of_user else "root"
        self._specifiers = {"%": "%", "n": f"{self._name}{SUFFIX}", "N": self._name, "p": prefix, "i": instance}
        self._specifiers |= {"I": instance.replace("-", "/"), "H": socket.gethostname(), "h": self._home, "u": user}
        settings = list(unit_files.read_settings(text, path.name))
        folders = [path.parent, *([ETC] if path.parent.name == "system" else [])]
        names = [f"{prefix}@{SUFFIX}.d"] * bool(instance) + [f"{self._name}{SUFFIX}.d"]
        drop_ins = {file.name: file for name in names for folder in folders for file in (folder / name).glob("*.conf")}
        for name in sorted(drop_ins):
            settings += unit_files.read_settings(read_text(drop_ins[name]), str(drop_ins[name]))
        self._settings: dict[str, list[UnitSetting]] = {}
        for setting in settings:  # an empty assignment resets the list
            self._settings[setting.key] = [*self._settings.get(setting.key, ()), setting] if setting.value else []
        unconverted = [setting for setting in settings if setting.value and setting.key not in CONVERTED]
        self._unconverted = [f"{setting.key} ({setting.position})" for setting in unconverted]
        self._env: dict[str, str] = {}  # as the configuration has them
        self._literals = {"": "$"}  # the values of those that aren't secrets, and of $$

    def convert(self) -> None:
        if (kind := self._last("Type")) and kind.value == "oneshot":
            raise ConfigError(f"{kind.position}: Type=oneshot runs once. Leave it to systemd; a worker keeps running.")
        self._read_environment()
        folder, kill, restart = (self._last(key) for key in ("WorkingDirectory", "KillSignal", "Restart"))
        cwd = self._expand(folder.value.removeprefix("-"), folder) if folder else self._folder
        signal = kill.value.upper().removeprefix("SIG") if kill else "TERM"
        stop, delay = self._seconds("TimeoutStopSec"), self._seconds("RestartSec")
        worker: dict[str, Any] = {
            "command": self._command(),
            **folder_settings((self._home if cwd == "~" else cwd).replace("$", "$$")),
            **({"env": self._env} if self._env else {}),
            "stop_signal": signal if signal in SIGNALS else "TERM",
            "stop_timeout_seconds": min(STOP_SECONDS if stop is None else stop, LONGEST_SECONDS),
            "heartbeat_max_age_seconds": 0,
            "restart": {"policy": POLICIES.get(restart.value, "never") if restart else "never"},
        }
        if delay is not None:
            worker["restart"]["backoff_seconds"] = delay
        for setting in (kill, restart):
            if setting and setting.value not in EXACT:
                self._note(setting, f"{setting.key}={setting.value} isn't converted exactly. Check it.")
        self._conversion.add_worker(self._name, worker)
        self._conversion.note_unconverted(self._file, self._unconverted)

    def _command(self) -> list[str]:
        starts = self._settings.get("ExecStart")
        if not starts:
            raise ConfigError(f"{self._file} has no ExecStart.")
        setting, words = starts[-1], self._words(starts[-1])
        if len(starts) > 1 or ";" in words:
            raise ConfigError(f"{setting.position}: ExecStart has several commands. Put them into a script.")
        program = (words[0] if words else "").lstrip("@-:+!")
        if not program or program.startswith("|"):
            raise ConfigError(f"{setting.position}: ExecStart must name a program. Write sh -c for a shell.")
        signs = words[0].removesuffix(program)
        if signs:
            self._note(setting, f"the prefix {signs} of the command is dropped. Check it.")
        command = [word(self._expand(program, setting))]
        for text in words[2 if "@" in signs else 1 :]:
            expanded = ";" if text == "\\;" else self._expand(text, setting)
            whole = re.fullmatch(r"\$([A-Za-z_][A-Za-z0-9_]*)", expanded)
            if whole and whole[1] in self._literals:
                command += map(word, split_words(self._literals[whole[1]]))
            elif whole:
                command += [value] if (value := self._variable(whole[1], setting)) else []
            else:  # literal text and names of variables in turn; $$ is an empty name
                parts = enumerate(_VARIABLE.split(expanded))
                command.append("".join(self._variable(x or "", setting) if n % 2 else word(x) for n, x in parts))
        return command

    def _variable(self, name: str, setting: UnitSetting) -> str:
        if name in self._literals:
            return word(self._literals[name])
        if name not in self._env and name not in SAFE:
            self._note(setting, f"${name} isn't set in the unit, so it's left out.")
        return self._env.get(name, f"${{{name}}}" if name in SAFE else "")

    def _read_environment(self) -> None:
        variables: list[tuple[str, str]] = []
        for setting in self._settings.get("Environment", ()):
            for assignment in self._words(setting):
                name, equals, value = self._expand(assignment, setting).partition("=")
                variables += [(name, value)] if equals else []
        for setting in self._settings.get("EnvironmentFile", ()):
            try:
                text = read_text(Path(self._expand(setting.value.removeprefix("-"), setting)))
            except (ConfigError, ValueError) as error:
                if not setting.value.startswith("-"):
                    remedy = "Make it readable, or write EnvironmentFile=-… to leave it out."
                    raise ConfigError(f"{setting.position}: {error} {remedy}") from error
                self._note(setting, f"{error} Add its variables to the worker's env.")
            else:
                variables += unit_files.read_variables(text).items()
        for name, value in variables:
            secret = self._conversion.hide_secret(self._name, name, value)
            self._env[name] = f"${{{secret}}}" if secret else value.replace("$", "$$")
            self._literals.pop(name, None)
            if not secret:
                self._literals[name] = value

    def _last(self, key: str) -> UnitSetting | None:
        return next(reversed(self._settings.get(key, [])), None)

    def _seconds(self, key: str) -> float | None:
        setting = self._last(key)
        seconds = seconds_in(setting.value) if setting else None
        if setting and seconds is None:
            raise ConfigError(f"{setting.position}: {key}={setting.value} isn't a time span.")
        return seconds

    def _words(self, setting: UnitSetting) -> list[str]:
        try:
            return split_words(setting.value)
        except UnitSyntaxError as error:
            raise UnitSyntaxError(f"{setting.position}: {setting.key} {error}") from None

    def _expand(self, text: str, setting: UnitSetting) -> str:
        for unknown in set(re.findall(r"%(.)", text)) - self._specifiers.keys():
            self._note(setting, f"replace %{unknown} in {setting.key} by its value.")
        return re.sub(r"%(.)", lambda match: self._specifiers.get(match[1], match[0]), text)

    def _note(self, setting: UnitSetting, text: str) -> None:
        self._conversion.note(f"{setting.position}: {text}")
