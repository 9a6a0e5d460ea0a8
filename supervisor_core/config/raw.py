"""The raw configuration: the file found and parsed, with `${VAR}` and `.env` replaced, nothing else checked.

On the path of `supervisor status`, which has 40 ms in all: no pydantic, dataclasses, pathlib or logging here,
and the parser of YAML only when there is something to parse.
"""

# ruff: noqa: PTH100, PTH109, PTH111, PTH112, PTH113, PTH118, PTH120, PTH123
# Importing pathlib alone would cost a tenth of the time that `status` has.

from __future__ import annotations

import os
import re

from supervisor_core.common.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Self


SettingPath = tuple[str | int, ...]
Problem = tuple[int, SettingPath, str]

VARIABLE = "SUPERVISOR_CONFIG"
FALLBACKS = ("config.yaml", "config.dev.yaml")
ENV_FILE = ".env"
MAX_BYTES = 1_000_000  # a configuration of a thousand workers has a third of this
MAX_KEY = 80  # characters of a key that a message repeats
MAX_PROBLEMS = 50  # lines in one error; more than that has one common cause
DEFAULT_STATE_DIR = "./var"

MAX_DEPTH = 32  # the deepest setting there is has six levels
MAX_NODES = 50_000  # values, with every alias counted as what it stands for
MERGE = "<<"
TEXT_TAG = "tag:yaml.org,2002:str"
TAGS = {"ScalarNode": TEXT_TAG, "SequenceNode": "tag:yaml.org,2002:seq", "MappingNode": "tag:yaml.org,2002:map"}

_INT = re.compile(r"[-+]?(?:0|[1-9][0-9_]{0,17})")
_FLOAT = re.compile(r"[-+]?(?:[0-9]{1,18}\.[0-9]{0,18}|\.[0-9]{1,18}|[0-9]{1,18}(?=[eE]))(?:[eE][-+]?[0-9]{1,2})?")
_CONSTANTS: dict[str, bool | None] = {"": None, "~": None, "null": None}
_CONSTANTS |= {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}

# What the parser says, and what a person would say. Its own words never appear: they may quote the document.
_YAML_WORDS = (
    ("mapping values are not allowed", "unexpected colon; put text that contains a colon in quotes"),
    ("could not find expected ':'", "a colon is missing after a key"),
    ("did not find expected key", "check the indentation and quotes of this line and the one above"),
    ("did not find expected '-' indicator", "list items must start in the same column"),
    ("did not find expected ',' or", "a bracket or brace isn't closed, or a comma is missing"),
    ("did not find expected node content", "a bracket or brace isn't closed, or a value is missing"),
    ("found character that cannot start", "a value starts with a tab or a character that needs quotes"),
    ("found a tab character", "use spaces instead of a tab"),
    ("found unexpected end of stream", "a quote isn't closed"),
    ("found duplicate anchor", "this anchor (&) is used twice"),
    ("found undefined alias", "this alias (*) has no anchor (&) above it"),
    ("but found another document", "a second YAML document starts here; only one is allowed"),
    ("found unknown escape character", "double the backslash inside double quotes, or use single quotes"),
)
_IN_BRACES = "; inside { } and [ ], put ${VARIABLE} in quotes"


class RawConfig:
    """A configuration as it was read: plain data with the line of every key, without tags, duplicate keys or bombs."""

    __slots__ = ("_count", "_open", "data", "environment", "folder", "label", "lines", "path", "problems", "text")

    def __init__(self, text: str, label: str, environment: dict[str, str]) -> None:
        self.path = os.path.abspath(label)
        """The absolute path of the file."""
        self.label = label
        """The file as the person named it, for messages."""
        self.folder = os.path.dirname(self.path)
        self.text = text
        """The content of the file."""
        self.environment = environment
        """The `.env` beside the file, and over it the environment."""
        self.lines: dict[SettingPath, int] = {}
        self.problems: list[Problem] = []
        """The errors in values that are already known."""
        self._open: list[Any] = []
        self._count = 0
        self.data: dict[str, Any] = self._parse()

    def __repr__(self) -> str:
        return f"RawConfig({self.path!r})"

    def line_of(self, path: SettingPath) -> int:
        """Return the line of a setting, or of the nearest section around a missing one."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)

    def resolve(self, text: str) -> str:
        """The absolute path that is meant: a relative one starts at the folder of the configuration."""
        return absolute(self.folder, text)

    def error(self, problems: list[Problem]) -> ConfigError:
        """All of these in one error, a line each, in the order of the file."""
        lines = [
            f"{self.label} line {line}: {format_path(path)}{' ' if path else ''}{text}"
            for line, path, text in sorted(problems, key=lambda problem: problem[0])
        ]
        if len(lines) > MAX_PROBLEMS:
            lines[MAX_PROBLEMS:] = [f"{self.label}: and {len(lines) - MAX_PROBLEMS} more"]
        return ConfigError("\n".join(lines))

    def _parse(self) -> dict[str, Any]:
        if not self.text.strip():
            raise ConfigError(f"The configuration file {self.label} is empty. Start from config.example.yaml.")
        import yaml

        try:
            # The parser in C, where there is one, is ten times as fast. The base loader leaves all values as text.
            root = yaml.compose(self.text, Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader))
        except yaml.MarkedYAMLError as error:
            raise ConfigError(f"{self.label} {_describe(error, self.text)}") from None
        except yaml.YAMLError:
            signs = (n for n, sign in enumerate(self.text) if not sign.isprintable() and sign not in "\t\r\n\x85\ufeff")
            line = self.text.count("\n", 0, next(signs, 0)) + 1
            raise self.error([(line, (), "a character isn't allowed in YAML")]) from None
        data = None if root is None else self._value(root, ())
        if data is None:
            raise ConfigError(f"The configuration file {self.label} has no settings. Start from config.example.yaml.")
        if not isinstance(data, dict):
            raise self.error([(1, (), "the configuration must consist of `key: value` lines")])
        return data

    def _value(self, node: Any, path: SettingPath) -> Any:  # noqa: ANN401
        line, kind = node.start_mark.line + 1, type(node).__name__
        self.lines.setdefault(path, line)
        self._count += 1
        if self._count > MAX_NODES:
            raise self.error([(line, (), f"with its aliases expanded, the document has more than {MAX_NODES} values")])
        if node.tag != TAGS[kind]:
            raise self.error([(line, path, "has a tag (`!…`); tags aren't allowed")])
        if kind == "ScalarNode":
            return self._scalar(node, path, line)
        if any(node is other for other in self._open):
            raise self.error([(line, path, "refers to itself")])
        if len(self._open) >= MAX_DEPTH:
            raise self.error([(line, (), f"the nesting is deeper than {MAX_DEPTH} levels")])
        self._open.append(node)
        value: Any
        if kind == "SequenceNode":
            value = [self._value(item, (*path, index)) for index, item in enumerate(node.value)]
        else:
            value = self._mapping(node, path)
        self._open.pop()
        return value

    def _scalar(self, node: Any, path: SettingPath, line: int) -> Any:  # noqa: ANN401
        is_plain = not node.style
        if "$" not in node.value:
            return scalar(node.value) if is_plain else node.value
        text, problems = substitute(node.value, self.environment)
        self.problems.extend((line, path, problem) for problem in problems)
        return Substituted(text, plain=is_plain)

    def _mapping(self, node: Any, path: SettingPath) -> dict[str, Any]:  # noqa: ANN401
        values: dict[str, Any] = {}
        merged: list[dict[str, Any]] = []
        for key_node, value_node in node.value:
            line, key = key_node.start_mark.line + 1, key_node.value
            if type(key_node).__name__ != "ScalarNode" or key_node.tag != TEXT_TAG:
                raise self.error([(line, (), "a key is a list, is a mapping or has a tag; keys must be text")])
            if key == MERGE:
                parts = value_node.value if type(value_node).__name__ == "SequenceNode" else [value_node]
                merged += [self._value(part, (*path, MERGE)) for part in parts]
                if not all(isinstance(part, dict) for part in merged):
                    raise self.error([(line, path, "merges (<<) something that isn't a mapping")])
                continue
            if key in values:
                first = self.lines[(*path, key)]
                self.problems.append((line, (*path, key), f"is set twice; the first is on line {first}"))
            self.lines.setdefault((*path, key), line)
            value = self._value(value_node, (*path, key))
            values.setdefault(key, value)
        for part in merged:
            values = {**part, **values}
        return values


def absolute(folder: str | os.PathLike[str], text: str) -> str:
    """The path from a folder on, with `~` for a home; symbolic links stay what they are."""
    return os.path.abspath(os.path.join(folder, os.path.expanduser(text)))


def format_path(path: SettingPath) -> str:
    """A path as people write it: `workers.OrionMX.probes[0].http`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
            continue
        name = part if len(part) <= MAX_KEY else part[: MAX_KEY - 1] + "…"
        if not name.isprintable() or not name.strip() or name != name.strip():
            name = ascii(name)
        text += f".{name}" if text else name
    return text


def find_config(path: str | os.PathLike[str] | None = None, environ: Mapping[str, str] | None = None) -> str:
    """The file to read, as it was named: the one given, else `SUPERVISOR_CONFIG`, else the usual one here."""
    if path is not None and not os.fspath(path):
        raise ConfigError("--config is empty. Name a configuration file.")
    name = os.fspath(path or "") or (os.environ if environ is None else environ).get(VARIABLE, "")
    if name:
        return name
    for candidate in FALLBACKS:
        if os.path.lexists(candidate):
            return candidate
    try:
        folder = os.getcwd()
    except OSError:
        folder = "the current folder, which no longer exists"
    raise ConfigError(
        f"No configuration found: --config isn't given, {VARIABLE} isn't set, and neither "
        f"{' nor '.join(FALLBACKS)} is in {folder}."
    )


def read_raw(path: str | os.PathLike[str] | None = None, environ: Mapping[str, str] | None = None) -> RawConfig:
    """Find and read the configuration; raise `ConfigError` if it isn't readable.

    An unset variable is a problem in the result, not an error: `status` must work in a shell without the
    daemon's secrets.
    """
    given = os.environ if environ is None else environ
    label = find_config(path, given)
    return parse_raw(read_text(label, "The configuration file"), label, given)


def parse_raw(text: str, label: str, environ: Mapping[str, str] | None = None) -> RawConfig:
    """The configuration with this content, as the file of this name."""
    variables: dict[str, str] = {}
    file = os.path.join(os.path.dirname(label), ENV_FILE)
    if os.path.isfile(file):  # a folder of this name is somebody's virtual environment
        variables, problems = parse_env(read_text(file, "The variables file"))
        if problems:
            raise ConfigError("\n".join(f"{file} line {line}: {problem}" for line, problem in problems[:MAX_PROBLEMS]))
    return RawConfig(text, label, {**variables, **(os.environ if environ is None else environ)})


def text_digest(text: str) -> str:
    """Tells two configuration files apart."""
    import hashlib  # late: OpenSSL is much of a quick command

    return hashlib.sha256(text.encode()).hexdigest()


def state_dir_of(raw: RawConfig) -> str:
    """The absolute `supervisor.state_dir`, of a configuration that may be wrong everywhere else."""
    path: SettingPath = ("supervisor", "state_dir")
    section = raw.data.get("supervisor") or {}
    if not isinstance(section, dict):
        raise raw.error([(raw.line_of(path[:1]), path[:1], "must be a section with settings")])
    if problems := [problem for problem in raw.problems if problem[1] == path]:
        raise raw.error(problems)
    value = section.get("state_dir", DEFAULT_STATE_DIR)
    if not isinstance(value, str) or not value or "\0" in value:
        raise raw.error([(raw.line_of(path), path, "must be a folder path")])
    return raw.resolve(value)


def read_text(label: str | os.PathLike[str], subject: str = "The file") -> str:
    """A file of limited size; `ConfigError` if it can't be read."""
    try:
        with open(label, "rb") as file:
            content = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        if isinstance(error, FileNotFoundError):
            problem = "doesn't exist"
        elif os.path.isdir(label):
            problem = "is a folder. Name a file in it"
        elif isinstance(error, PermissionError):
            problem = "can't be read by this user"
        else:
            problem = f"can't be read: {getattr(error, 'strerror', None) or 'invalid name'}"
        raise ConfigError(f"{subject} {ascii(os.fspath(label))[1:-1]} {problem}.") from None
    if len(content) > MAX_BYTES:
        raise ConfigError(f"{subject} {label} is larger than {MAX_BYTES:,} bytes. Is it the right file?")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{subject} {label} isn't UTF-8 text (line {line}). Save it as UTF-8.") from None


_REFERENCE = re.compile(r"\$(?:(\$)|\{([A-Za-z_][A-Za-z0-9_]*)(?::([^}]*))?\}|(\{))")
_ENTRY = re.compile(
    r"""(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*+(?:'([^']*)'|"((?:[^"\\]|\\.)*)"|([^'"#](?:(?!\s#).)*)?)(?:\s*#.*)?"""
)
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t"}


class Substituted(str):
    """Text in which a variable was replaced. It may be a secret, so no message ever quotes it.

    `plain` is true where the document has no quotes around it: only then may it serve as a number.
    """

    __slots__ = ("plain",)
    plain: bool

    def __new__(cls, text: str, *, plain: bool) -> Self:
        value = super().__new__(cls, text)
        value.plain = plain
        return value


def substitute(text: str, environment: Mapping[str, str]) -> tuple[str, list[str]]:
    """The text with its variables replaced once, and what is wrong with it, in words.

    What comes out of a variable is never looked at again: no variable can pull in another.
    """
    problems: list[str] = []

    def value(match: re.Match[str]) -> str:
        dollar, name, default, broken = match.groups()
        if dollar:
            return "$"
        if broken:
            problems.append("has a `${` without a variable; write ${NAME} or ${NAME:default}, or $${ for a literal ${")
            return ""
        if name in environment:
            return environment[name]
        if default is None:
            problems.append(
                f"needs the environment variable {name}, which isn't set; set it, or write ${{{name}:default}}"
            )
            return ""
        return str(default)

    return _REFERENCE.sub(value, text), problems


def parse_env(text: str) -> tuple[dict[str, str], list[tuple[int, str]]]:
    """The variables of a `.env` file, and its faulty lines. A message never quotes a value."""
    variables: dict[str, str] = {}
    problems: list[tuple[int, str]] = []
    for number, line in enumerate(text.splitlines(), 1):
        entry = line.strip()
        if not entry or entry.startswith("#"):
            continue
        match = _ENTRY.fullmatch(entry)
        if match is None:
            problems.append((number, "must have the form NAME=value; a quote must be closed, with nothing behind it"))
            continue
        name, literal, quoted, plain = match.groups()
        unescaped = _ESCAPE.sub(lambda escape: _ESCAPED.get(escape[1], escape[1]), quoted or "")
        variables[name] = literal or unescaped or (plain or "").rstrip()
    return variables, problems


class WrittenInt(int):
    """A whole number that remembers its notation, for settings that are text after all."""

    text = ""


class WrittenFloat(float):
    """A fractional number that remembers its notation: `1.10` may be a version."""

    text = ""


def scalar(text: str) -> Any:  # noqa: ANN401
    """The value of text without quotes."""
    lowercase = text.lower()
    if lowercase in _CONSTANTS and text in (lowercase, lowercase.upper(), lowercase.capitalize()):
        return _CONSTANTS[lowercase]
    if not (_INT.fullmatch(text) or _FLOAT.fullmatch(text)):
        return text
    number = WrittenInt(text.replace("_", "")) if _INT.fullmatch(text) else WrittenFloat(text)
    number.text = text
    return number


def _describe(error: Any, text: str) -> str:  # noqa: ANN401
    """The position and the kind of a YAML error, for people who don't know YAML's terms."""
    mark = error.problem_mark or error.context_mark
    if mark is None:
        return "isn't valid YAML"
    problem = str(error.problem or "")
    kind = next((plain for start, plain in _YAML_WORDS if problem.startswith(start)), "see this position")
    line = [*text.splitlines(), ""][mark.line : mark.line + 1]
    hint = _IN_BRACES if line and "${" in line[0] and "$$" not in line[0] else ""
    return f"line {mark.line + 1}, column {mark.column + 1}: not valid YAML: {kind}{hint}"
