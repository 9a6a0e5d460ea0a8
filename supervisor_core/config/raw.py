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

    from supervisor_core.config.document import Document, Path, Problem

VARIABLE = "SUPERVISOR_CONFIG"
FALLBACKS = ("config.yaml", "config.dev.yaml")
ENV_FILE = ".env"
MAX_BYTES = 1_000_000  # a configuration of a thousand workers has a third of this
MAX_KEY = 80  # characters of a key that a message repeats
MAX_PROBLEMS = 50  # lines in one error; more than that has one common cause
DEFAULT_STATE_DIR = "./var"

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
    """A configuration as it was read."""

    __slots__ = ("data", "environment", "folder", "label", "lines", "path", "problems", "text")

    def __init__(self, path: str, label: str, text: str, document: Document, environment: dict[str, str]) -> None:
        self.path = path
        """The absolute path of the file."""
        self.label = label
        """The file as the person named it, for messages."""
        self.folder = os.path.dirname(path)
        self.text = text
        """The content of the file."""
        self.data: dict[str, Any] = document.data
        self.lines: dict[Path, int] = document.lines
        self.problems: list[Problem] = document.problems
        """The errors in values that are already known."""
        self.environment = environment
        """The `.env` beside the file, and over it the environment."""

    def __repr__(self) -> str:
        return f"RawConfig({self.path!r})"

    def line_of(self, path: Path) -> int:
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


def absolute(folder: str | os.PathLike[str], text: str) -> str:
    """The path from a folder on, with `~` for a home; symbolic links stay what they are."""
    return os.path.abspath(os.path.join(folder, os.path.expanduser(text)))


def format_path(path: Path) -> str:
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
    chosen = os.fspath(path or "") or (os.environ if environ is None else environ).get(VARIABLE, "")
    if chosen:
        return chosen
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
    path = os.path.abspath(label)
    variables: dict[str, str] = {}
    file = os.path.join(os.path.dirname(label), ENV_FILE)
    if os.path.isfile(file):  # a folder of this name is somebody's virtual environment
        variables, problems = parse_env(read_text(file, "The variables file"))
        if problems:
            raise ConfigError("\n".join(f"{file} line {line}: {problem}" for line, problem in problems[:MAX_PROBLEMS]))
    environment = {**variables, **(os.environ if environ is None else environ)}
    return RawConfig(path, label, text, _parse(text, label, environment), environment)


def text_digest(text: str) -> str:
    """Tells two configuration files apart."""
    import hashlib  # late: OpenSSL is much of a quick command

    return hashlib.sha256(text.encode()).hexdigest()


def state_dir_of(raw: RawConfig) -> str:
    """The absolute `supervisor.state_dir`, of a configuration that may be wrong everywhere else."""
    path: Path = ("supervisor", "state_dir")
    section = raw.data.get("supervisor") or {}
    if not isinstance(section, dict):
        raise raw.error([(raw.line_of(path[:1]), path[:1], "must be a section with settings")])
    if problems := [problem for problem in raw.problems if problem[1] == path]:
        raise raw.error(problems)
    value = section.get("state_dir", DEFAULT_STATE_DIR)
    if not isinstance(value, str) or not value or "\0" in value:
        raise raw.error([(raw.line_of(path), path, "must be a folder path")])
    return raw.resolve(value)


def read_text(label: str | os.PathLike[str], what: str = "The file") -> str:
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
        raise ConfigError(f"{what} {ascii(os.fspath(label))[1:-1]} {problem}.") from None
    if len(content) > MAX_BYTES:
        raise ConfigError(f"{what} {label} is larger than {MAX_BYTES:,} bytes. Is it the right file?")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{what} {label} isn't UTF-8 text (line {line}). Save it as UTF-8.") from None


def _parse(text: str, label: str, environment: dict[str, str]) -> Document:
    if not text.strip():
        raise ConfigError(f"The configuration file {label} is empty. Start from config.example.yaml.")
    import yaml

    from supervisor_core.config.document import Document, DocumentError

    try:
        # The parser in C, where there is one, is ten times as fast. The base loader leaves all values as text.
        root = yaml.compose(text, Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader))
        document = Document(root, environment)
    except DocumentError as error:
        subject = "" if error.path is None else f"{format_path(error.path) or 'the document'} "
        raise ConfigError(f"{label} line {error.line}: {subject}{error.reason}") from None
    except yaml.MarkedYAMLError as error:
        raise ConfigError(f"{label} {_describe(error, text)}") from None
    except yaml.YAMLError:
        signs = (n for n, sign in enumerate(text) if not sign.isprintable() and sign not in "\t\r\n\x85\ufeff")
        line = text.count("\n", 0, next(signs, 0)) + 1
        raise ConfigError(f"{label} line {line}: a character isn't allowed in YAML") from None
    if document.data is None:
        raise ConfigError(f"The configuration file {label} has no settings. Start from config.example.yaml.")
    if not isinstance(document.data, dict):
        raise ConfigError(f"{label} line 1: the configuration must consist of `key: value` lines")
    return document


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
