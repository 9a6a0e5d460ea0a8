"""`supervisord.conf`: each process of a `[program:x]` becomes a worker, each `[group:x]` a team."""

from __future__ import annotations

import configparser
import re
import shlex
import socket
from pathlib import Path
from typing import Any

from supervisor_core.common.errors import ConfigError
from supervisor_core.config.raw import read_text
from supervisor_core.config.setup.imports.conversion import MOST_WORKERS, Conversion, folder_settings, word
from supervisor_core.config.worker_settings import SIGNALS

PROGRAM, GROUP = "program:", "group:"
POLICIES = {"unexpected": "on-failure", **dict.fromkeys(("true", "yes", "on", "t", "y", "1"), "always")}
POLICIES |= dict.fromkeys(("false", "no", "off", "f", "n", "0"), "never")
DEFAULTS = {"numprocs": "1", "numprocs_start": "0", "stopwaitsecs": "10", "startsecs": "1", "stopsignal": "TERM"}
DEFAULTS |= {"process_name": "%(program_name)s", "autorestart": "unexpected", "autostart": "true"}
DEFAULTS |= {"command": "", "directory": "", "environment": ""}
NUMBERS = ("numprocs", "numprocs_start", "stopwaitsecs", "startsecs")
_MARK = "\0"


def recognize(text: str) -> bool:
    """True for an INI file with a section of supervisord's."""
    return re.search(r"^\[(supervisord|program:[^\]]+)\]", text, re.MULTILINE) is not None


class _Expansions(dict[str, Any]):
    """The values of `%(name)s`. A variable of the environment becomes a mark, and `_variables` makes `${VAR}` of it."""

    def __missing__(self, name: str) -> str:
        if name.startswith("ENV_"):
            return f"{_MARK}{name.removeprefix('ENV_')}{_MARK}"
        raise KeyError(name)


def _variables(text: str) -> str:
    return re.sub(f"{_MARK}([^{_MARK}]*){_MARK}", r"${\1}", text)


def convert(conversion: Conversion, path: Path, text: str) -> None:
    """Add a worker for each process, those of the included files among them."""
    parser = configparser.RawConfigParser(inline_comment_prefixes=(";", "#"), strict=False)
    values = _Expansions(here=str(path.parent), host_node_name=socket.gethostname())
    try:
        parser.read_string(text, source=path.name)
        for pattern in (parser.get("include", "files", fallback="") % values).split():
            path_pattern = path.parent / pattern
            for file in sorted(Path(path_pattern.anchor).glob(str(path_pattern.relative_to(path_pattern.anchor)))):
                parser.read_string(read_text(file), source=str(file))
    except configparser.ParsingError as error:  # its message quotes the line, which may hold a password
        lines = [number for number, _ in getattr(error, "errors", ())] or [getattr(error, "lineno", 0)]
        raise ConfigError(f"{error.source} line {lines[0]}: must be a section, or a setting as key=value") from None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ConfigError(f"A file that {path} includes can't be read: {error}.") from None
    teams = {
        program: re.sub(r"[^A-Za-z0-9._-]+", "-", section.removeprefix(GROUP).strip())
        for section in parser.sections()
        if section.startswith(GROUP)
        for program in re.split(r"[,\s]+", parser.get(section, "programs", fallback=""))
    }
    shared = dict(parser.items("supervisord")) if parser.has_section("supervisord") else {}
    unconverted = [f"[supervisord] {key}" for key in shared if key not in ("environment", "directory")]
    for section in parser.sections():
        if section.startswith(PROGRAM):
            _add_program(conversion, section, dict(parser.items(section)), shared, teams, values)
            unconverted += [f"[{section}] {key}" for key in parser.options(section) if key not in DEFAULTS]
        elif not section.startswith((GROUP, "include", "supervisord")):
            unconverted.append(f"[{section}]")
    conversion.note_unconverted(path.name, unconverted)
    conversion.note("A worker gets only a few of the supervisor's variables: add what it needs to its env.")


def _add_program(
    conversion: Conversion, section: str, given: dict[str, str], shared: dict[str, str], teams: dict[str, str],
    known: _Expansions,
) -> None:  # fmt: skip
    program = section.removeprefix(PROGRAM).strip()
    settings = DEFAULTS | {key: value.strip() for key, value in given.items() if value.strip()}
    if not settings["command"]:
        raise ConfigError(f"[{section}] has no command.")
    if faulty := [key for key in NUMBERS if not re.fullmatch(r"[0-9]{1,6}", settings[key])]:
        raise ConfigError(f"[{section}] {faulty[0]} must be a whole number.")
    count, first, wait, grace = (int(settings[key]) for key in NUMBERS)
    if not 0 < count <= MOST_WORKERS:
        raise ConfigError(f"[{section}] numprocs must be 1 to {MOST_WORKERS}.")
    signal, policy = settings["stopsignal"].upper().removeprefix("SIG"), settings["autorestart"].lower()
    if signal not in SIGNALS or policy not in POLICIES:
        conversion.note(f"[{section}]: stopsignal or autorestart isn't valid, and has its default here.")
    for number in range(first, first + count):
        values = _Expansions({**known, "program_name": program, "group_name": teams.get(program, program)})
        values |= {"process_num": number, "numprocs": count}
        try:
            env = _environment(conversion, program, shared.get("environment", "") % values)
            own = _environment(conversion, program, settings["environment"] % values)
            values |= {f"ENV_{name}": value for name, value in own.items()}
            name = settings["process_name"] % values
            command = [_variables(word(argument)) for argument in shlex.split(settings["command"] % values)]
            folder = (settings["directory"] or shared.get("directory", "")) % values
        except (KeyError, ValueError, TypeError) as error:
            raise ConfigError(f"[{section}] can't be expanded: {error}.") from None
        worker: dict[str, Any] = {"command": command}
        if folder:
            worker |= folder_settings(_variables(folder.replace("$", "$$")))
        else:
            conversion.note(f"{name} has no directory. Set cwd to the folder that it runs in now.")
        if env | own:
            worker["env"] = {argument: _variables(value.replace("$", "$$")) for argument, value in (env | own).items()}
        worker["enabled"] = POLICIES.get(settings["autostart"].lower()) != "never"
        worker |= {"stop_signal": signal if signal in SIGNALS else "TERM", "heartbeat_max_age_seconds": 0}
        worker |= {"stop_timeout_seconds": wait, "start_grace_seconds": grace}
        worker["restart"] = {"policy": POLICIES.get(policy, "on-failure")}
        conversion.add_worker(name, {**worker, **({"team": teams[program]} if program in teams else {})})


def _environment(conversion: Conversion, program: str, text: str) -> dict[str, str]:
    """`KEY=value,KEY2="a value"`, read as supervisord reads it; a secret becomes the mark of a variable."""
    lexer = shlex.shlex(text, posix=True)
    lexer.wordchars += f"/.+-():{_MARK}"
    tokens, env = list(lexer), {}
    for start in range(0, len(tokens), 4):
        if len(tokens) < start + 3 or tokens[start + 1] != "=":
            raise ValueError('environment must consist of KEY="value" pairs with commas between them')
        name, value = tokens[start], tokens[start + 2]
        secret = None if _MARK in value else conversion.hide_secret(program, name, value)
        env[name] = f"{_MARK}{secret}{_MARK}" if secret else value
    return env
