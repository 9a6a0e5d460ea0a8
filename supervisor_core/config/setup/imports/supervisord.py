"""`supervisord.conf`: each process of a `[program:x]` becomes a worker, each `[group:x]` a team."""

from __future__ import annotations

import configparser
import re
import shlex
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from supervisor_core.common.errors import ConfigError
from supervisor_core.config.setup.imports.conversion import (
    Conversion,
    Leftover,
    NewNames,
    OldFile,
    is_in_checkout,
    is_secret,
    word,
)
from supervisor_core.config.worker_settings import SIGNALS

PROGRAM, GROUP = "program:", "group:"
MAX_PROCESSES = 1000
STOP_SECONDS = 10
"""The old default of `stopwaitsecs`; it's written, because the default here is another one."""

POLICIES = {"unexpected": "on-failure", **dict.fromkeys(("true", "yes", "on", "t", "y", "1"), "always")}
POLICIES |= dict.fromkeys(("false", "no", "off", "f", "n", "0"), "never")
LEVELS = {"critical": "CRITICAL", "error": "ERROR", "warn": "WARNING", "info": "INFO", "debug": "DEBUG"}

_OUTPUT = "stdout and stderr are captured together, in the state folder"
UNMAPPED: Mapping[str, str] = {
    "stopasgroup": "every descendant is stopped anyway",
    "killasgroup": "every descendant is stopped anyway",
    "startretries": "restart.max_per_hour counts every automatic restart",
    "exitcodes": "on-failure means every exit code but 0",
    "user": "a worker runs as the supervisor's user",
    "priority": "workers start at the same time",
    "redirect_stderr": _OUTPUT,
}
"""Why settings of a program have no place in the new configuration."""
_OF_SUPERVISORD = "it's about supervisord itself"
_UNKNOWN = "nothing here corresponds to it"
_INVALID = "its value isn't valid"

_MARK = "\0"


def recognize(old: OldFile) -> bool:
    """True for an INI file with a section of supervisord's."""
    return re.search(r"^\[(supervisord|program:[^\]]+)\]", old.text, re.MULTILINE) is not None


def convert(old: OldFile) -> Conversion:
    """The new configuration, the included files among it."""
    parser, places = _parse(old)
    return _Converter(old, parser, places).convert()


Places = dict[tuple[str, str], tuple[str, int]]
"""The file and line of each setting, by its section and key."""


def _parse(old: OldFile) -> tuple[configparser.RawConfigParser, Places]:
    path = old.path
    parser = configparser.RawConfigParser(inline_comment_prefixes=(";", "#"), strict=False)
    places = _places(path.name, old.text)
    try:
        parser.read_string(old.text, source=path.name)
        patterns = parser.get("include", "files", fallback="") % _Expansions(path.parent)
        for pattern in patterns.split():
            place = path.parent / pattern
            for found in sorted(Path(place.anchor).glob(str(place.relative_to(place.anchor)))):
                text = old.read(found)
                parser.read_string(text, source=str(found))
                places |= _places(str(found), text)
    except configparser.ParsingError as error:  # its message quotes the line, which may hold a password
        lines = [number for number, _ in getattr(error, "errors", ())] or [getattr(error, "lineno", 0)]
        raise ConfigError(f"{error.source} line {lines[0]}: must be a section, or a setting as key=value") from None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ConfigError(f"A file that {path} includes can't be read: {error}.") from None
    return parser, places


def _places(name: str, text: str) -> Places:
    found: Places = {}
    section = ""
    for number, line in enumerate(text.splitlines(), 1):
        if heading := re.match(r"\[([^\]]+)\]", line):
            section = heading[1]
        elif setting := re.match(r"([^\s;#=:][^=:]*?)\s*[=:]", line):
            found[section, setting[1].lower()] = name, number
    return found


class _Expansions(dict[str, Any]):
    """The values of `%(name)s`. A variable of the environment becomes a mark, and `_variables` makes `${VAR}` of it."""

    def __init__(self, here: Path, **values: object) -> None:
        super().__init__(here=str(here), host_node_name=socket.gethostname(), **values)

    def learn(self, environment: Mapping[str, str]) -> None:
        """Know the program's own variables, too."""
        self.update({f"ENV_{name}": text for name, text in environment.items()})

    def __missing__(self, name: str) -> str:
        if name.startswith("ENV_"):
            return f"{_MARK}{name.removeprefix('ENV_')}{_MARK}"
        raise KeyError(name)


def _variables(text: str) -> str:
    return re.sub(f"{_MARK}([^{_MARK}]*){_MARK}", r"${\1}", text)


class _Converter:
    def __init__(self, old: OldFile, parser: configparser.RawConfigParser, places: Places) -> None:
        self._file = old.path.name
        self._here = old.path.parent
        self._places = places
        self._sections = {name: dict(parser.items(name)) for name in parser.sections()}
        self._mapped: set[tuple[str, str]] = {("include", "files")}
        self._reasons: dict[tuple[str, str], str] = {}
        self._notes: list[str] = []
        self._names: NewNames = old.names

    def convert(self) -> Conversion:
        teams = self._teams()
        workers: dict[str, Any] = {}
        for section in self._sections:
            if section.startswith(PROGRAM):
                program = section.removeprefix(PROGRAM).strip()
                for name, worker in self._program(section, program, teams.get(program, program)):
                    workers[self._worker_id(name)] = {
                        **worker,
                        **({"team": teams[program]} if program in teams else {}),
                    }
        document: dict[str, Any] = {}
        level = LEVELS.get(self._get("supervisord", "loglevel").lower(), "")
        if level:
            document["logging"] = {"level": level}
        document["workers"] = workers
        if teams:
            document["teams"] = {name: {} for name in dict.fromkeys(teams.values())}
        self._notes.append("A worker gets only a few of the supervisor's variables: add what it needs to its env.")
        self._notes.extend(self._names.notes())
        return Conversion(document, tuple(self._leftovers()), tuple(self._notes))

    def _teams(self) -> dict[str, str]:
        found = {}
        for section in self._sections:
            if section.startswith(GROUP):
                team = re.sub(r"[^A-Za-z0-9._-]+", "-", section.removeprefix(GROUP).strip())
                for program in re.split(r"[,\s]+", self._get(section, "programs")):
                    found[program] = team
        return found

    def _program(self, section: str, program: str, group: str) -> Iterator[tuple[str, dict[str, Any]]]:
        count, first = self._whole(section, "numprocs", 1), self._whole(section, "numprocs_start", 0)
        if not 0 < count <= MAX_PROCESSES:
            raise ConfigError(f"[{section}] numprocs must be 1 to {MAX_PROCESSES}.")
        for number in range(first, first + count):
            known = _Expansions(self._here, program_name=program, group_name=group, process_num=number, numprocs=count)
            try:
                yield from self._process(section, known)
            except (KeyError, ValueError, TypeError) as error:
                raise ConfigError(f"[{section}] can't be expanded: {error}.") from None

    def _process(self, section: str, known: _Expansions) -> Iterator[tuple[str, dict[str, Any]]]:
        shared = self._environment("supervisord", known)
        own = self._environment(section, known)
        known.learn(own)
        command = self._get(section, "command")
        if not command:
            raise ConfigError(f"[{section}] has no command.")
        name = (self._get(section, "process_name") or "%(program_name)s") % known
        worker: dict[str, Any] = {"command": [_variables(word(each)) for each in shlex.split(command % known)]}
        folder = self._get(section, "directory") or self._get("supervisord", "directory")
        if folder:
            worker["cwd"] = _variables(folder.replace("$", "$$") % known)
            if is_in_checkout(Path(worker["cwd"])):
                worker["code"] = {"path": worker["cwd"]}
        else:
            self._notes.append(f"{name} has no directory. Set cwd to the folder that it runs in now.")
        if environment := {**shared, **own}:
            worker["env"] = {each: _variables(value.replace("$", "$$")) for each, value in environment.items()}
        if self._word(section, "autostart", {"true": True, "false": False}, True) is False:
            worker["enabled"] = False
        worker["stop_signal"] = self._signal(section)
        worker["stop_timeout_seconds"] = self._whole(section, "stopwaitsecs", STOP_SECONDS)
        if self._get(section, "startsecs"):
            worker["start_grace_seconds"] = self._whole(section, "startsecs", 1)
        worker["heartbeat_max_age_seconds"] = 0
        worker["restart"] = {"policy": self._word(section, "autorestart", POLICIES, "on-failure")}
        yield name, worker

    def _environment(self, section: str, known: _Expansions) -> dict[str, str]:
        """`KEY=value,KEY2="a value"`, read as supervisord reads it."""
        lexer = shlex.shlex(self._get(section, "environment") % known, posix=True)
        lexer.wordchars += f"/.+-():{_MARK}"
        words = list(lexer)
        found = {}
        for place in range(0, len(words), 4):
            if len(words) < place + 3 or words[place + 1] != "=":
                raise ValueError('environment must consist of KEY="value" pairs with commas between them')
            name, value = words[place], words[place + 2]
            hidden = _MARK not in value and is_secret(name, value)
            found[name] = self._hidden(section, name, value) if hidden else value
        return found

    def _hidden(self, section: str, name: str, value: str) -> str:
        """The mark of a variable that stands for a secret."""
        return f"{_MARK}{self._names.secret(section.removeprefix(PROGRAM), name, value)}{_MARK}"

    def _worker_id(self, name: str) -> str:
        made = self._names.worker_id(name)
        if made != name:
            self._notes.append(f"{name} is the worker {made}: an id has letters, digits, dots and hyphens.")
        return made

    # --- reading the old settings

    def _get(self, section: str, key: str) -> str:
        value = self._sections.get(section, {}).get(key, "").strip()
        if value:
            self._mapped.add((section, key))
        return value

    def _whole(self, section: str, key: str, default: int) -> int:
        text = self._get(section, key)
        if not text:
            return default
        if not re.fullmatch(r"[0-9]{1,6}", text):
            raise ConfigError(f"[{section}] {key} must be a whole number.")
        return int(text)

    def _word(self, section: str, key: str, names: Mapping[str, Any], default: Any) -> Any:  # noqa: ANN401
        text = self._get(section, key).lower()
        if text and text not in names:
            self._mapped.discard((section, key))
            self._reasons[section, key] = _INVALID
        return names.get(text, default)

    def _signal(self, section: str) -> str:
        name = self._get(section, "stopsignal").upper().removeprefix("SIG")
        if name and name not in SIGNALS:
            self._mapped.discard((section, "stopsignal"))
            self._reasons[section, "stopsignal"] = _INVALID
        return name if name in SIGNALS else "TERM"

    def _leftovers(self) -> Iterator[Leftover]:
        for section, settings in self._sections.items():
            for key in settings:
                if (section, key) not in self._mapped:
                    reason = self._reasons.get((section, key)) or _reason(section, key)
                    yield Leftover(f"[{section}] {key}", reason, *self._places.get((section, key), (self._file, 0)))


def _reason(section: str, key: str) -> str:
    if section.startswith(PROGRAM):
        return UNMAPPED.get(key) or (_OUTPUT if key.startswith(("stdout_", "stderr_")) else _UNKNOWN)
    if section.startswith((GROUP, "eventlistener:", "fcgi-program:")):
        return _UNKNOWN
    return _OF_SUPERVISORD
