"""`supervisor init`: writes the files of a host into a folder, checks them, and says what is next."""

from __future__ import annotations

import argparse
import getpass
import os
import re
import shlex
import shutil
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_args

from supervisor_core.cli.arguments import Subparsers, add_command
from supervisor_core.cli.config import summarize
from supervisor_core.cli.importing import importable
from supervisor_core.cli.output import fit
from supervisor_core.common.errors import UsageError
from supervisor_core.common.sections import Invalid
from supervisor_core.config.load import SupervisorConfig, check_raw, load_supervisor_config
from supervisor_core.config.names import ChannelId, HostId, PersonId, TeamName, WorkerId, host_id
from supervisor_core.config.raw import DEFAULT_STATE_DIR, ENV_FILE, VARIABLE, parse_env, parse_raw
from supervisor_core.config.setup.files import READABLE_FILE, add_variables, document_text, write_file
from supervisor_core.config.setup.imports.conversion import is_in_checkout, quoted
from supervisor_core.config.setup.unit_files import quoted_word
from supervisor_core.config.slack_settings import APP_TOKEN, BOT_TOKEN, FILE_SUFFIX
from supervisor_core.config.worker_settings import PLACEHOLDERS
from supervisor_core.daemon.wiring import installed_chat
from supervisor_core.doctor.units import has_systemd
from supervisor_core.host.files import FileTaken

CONFIG, MANIFEST = "config.yaml", "manifest.yml"

ABOUT_CONFIG = ("name", "state_dir", "worker", "drive", "slack", "tokens", "channel", "operators")
"""The options whose values are in the configuration."""

APPS = "https://api.slack.com/apps"


def add_parser(subparsers: Subparsers) -> None:
    description = "Write the configuration, the Slack app's manifest and a systemd unit of this host. "
    description += "It asks what it must know."
    example = "init --yes --worker fetcher --command 'python3 fetch.py --all' --cwd /srv/fetcher"
    parser = add_command(subparsers, "init", run, description, example)
    parser.add_argument("folder", nargs="?", default=".", metavar="FOLDER", help="write here (default: this folder)")
    parser.add_argument("--yes", action="store_true", help="ask nothing: take the default of each missing option")
    parser.add_argument("--force", action="store_true", help="replace what is there; .env only gets missing lines")
    parser.add_argument("--name", metavar="NAME", help="name of this host (default: the hostname)")
    parser.add_argument("--state-dir", metavar="DIR", help="folder for its state, on a local disk (default: ./var)")
    worker = "a worker; repeat for several. The next four options are about the worker before them"
    parser.add_argument("--worker", dest="worker", action=WorkerAction, metavar="ID", help=worker)
    for name, metavar, text in (
        ("--command", "'COMMAND …'", "its command line, as one text; no shell runs it"),
        ("--cwd", "DIR", "the folder that it runs in"),
        ("--heartbeat", "S", "its heartbeat is stale after S seconds (default: it writes none)"),
        ("--team", "NAME", "its team"),
    ):
        parser.add_argument(name, dest="worker", action=WorkerAction, metavar=metavar, help=text)
    parser.add_argument("--no-worker", dest="worker", action="store_const", const=(), help="no worker yet")
    parser.add_argument("--drive", metavar="DIR", help="folder on a shared drive; '' for none")
    parser.add_argument(
        "--slack", action=argparse.BooleanOptionalAction, help="operate it from Slack (with --yes: by default not)"
    )
    tokens = "env: write SLACK_BOT_TOKEN and SLACK_APP_TOKEN of this shell to .env. later: add them yourself"
    parser.add_argument("--tokens", choices=["env", "later"], help=tokens)
    parser.add_argument("--channel", metavar="C…", help="channel for alerts")
    parser.add_argument("--operators", metavar="U…,U…", help="people who may run commands")
    parser.add_argument("--system", action="store_true", help="write a unit for the system, not for your own systemd")


class WorkerAction(argparse.Action):
    """Collects `--worker ID` and the options behind it that are about this worker."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, value: object, option: str | None = None
    ) -> None:
        workers = list(getattr(namespace, self.dest) or ())
        name = self.option_strings[0].removeprefix("--")
        if name == self.dest:
            workers.append({name: value})
        elif not workers:
            parser.error(f"{option} must follow the --worker that it's about")
        else:
            workers[-1] = {**workers[-1], name: value}
        setattr(namespace, self.dest, workers)


def run(options: argparse.Namespace) -> int:
    """Write what is missing. Every file is written whole, so a second run completes an interrupted one."""
    if options.config is not None:
        raise UsageError("`supervisor init` takes a folder.", remedy="Run `supervisor init FOLDER`.")
    folder = Path(options.folder).expanduser().absolute()
    if os.path.lexists(folder / CONFIG) and not options.force:
        setup = Setup(folder, load_supervisor_config(folder / CONFIG), system=options.system)
        if any(getattr(options, name) is not None for name in ABOUT_CONFIG):
            print(fit(f"{CONFIG} is kept, so the options about it have no effect. Edit it, or add --force."))
    else:
        setup = _planned(folder, options)
    setup.write()
    for line in setup.report():
        print(fit(line))
    return 0


def _planned(folder: Path, options: argparse.Namespace) -> Setup:
    """The setup by the answers, checked before anything is written."""
    print(fit(f"Sets up a supervisor in {folder}."))
    for other in importable(folder):
        print(fit(f"Found {other}. To take over its workers, run `supervisor import {other}` first."))
    try:
        text, tokens = Interview(options, folder, _variables(folder)).answers()
    except KeyboardInterrupt:
        print("\nNothing was written.")
        raise
    config = check_raw(parse_raw(text, str(folder / CONFIG)))
    return Setup(folder, config, text, tokens, force=options.force, system=options.system)


def _variables(folder: Path) -> dict[str, str]:
    """The variables to which the `.env` that is there gives a value, or a file with the value."""
    path = folder / ENV_FILE
    found, _ = parse_env(path.read_text(encoding="utf-8", errors="replace")) if path.is_file() else ({}, [])
    return {name.removesuffix(FILE_SUFFIX): value for name, value in found.items() if value}


class Setup:
    """The files of one host in a folder."""

    def __init__(
        self,
        folder: Path,
        config: SupervisorConfig,
        text: str = "",
        tokens: Mapping[str, str] = MappingProxyType({}),
        *,
        force: bool = False,
        system: bool = False,
    ) -> None:
        self._folder = folder
        self._config = config
        self._text = text
        """The configuration to write; empty if the one that is there is kept."""
        self._tokens = tokens
        self._force = force
        self._system = system
        self._written: list[str] = []
        self._kept: list[str] = []

    def write(self) -> None:
        """Write all files; the ones that are there are kept, unless `force`."""
        self._folder.mkdir(parents=True, exist_ok=True)
        chat = self._config.slack.enabled and self._config.fleet.role != "host"
        self._write_variables(chat=chat)
        if self._text:
            self._write(CONFIG, self._text)
        else:
            self._kept.append(CONFIG)
        if chat:
            self._write(MANIFEST, installed_chat().manifest(), READABLE_FILE)
        if sys.platform == "linux":
            self._write(
                UNIT_NAME, service_unit(_program(), str(self._config.path), self._service_user()), READABLE_FILE
            )
        self._config = load_supervisor_config(self._path(CONFIG))

    def _write(self, name: str, text: str, mode: int = 0o600) -> None:
        path = self._path(name)
        try:
            write_file(path, text, replace=self._force, mode=mode)
        except FileTaken:
            self._kept.append(name)
        else:
            self._written.append(name)

    def _write_variables(self, *, chat: bool) -> None:
        """The `.env`: values that are there stay, and a token that isn't known yet gets a line to fill in."""
        open_lines = [f"# {name}={begin}…" for name, begin in TOKENS.items() if chat and name not in self._tokens]
        there = _variables(self._folder)
        wanted = [line for line in open_lines if line[2:].partition("=")[0] not in there]
        existed = self._path(ENV_FILE).exists()
        added = add_variables(self._path(ENV_FILE), self._tokens, [*([] if existed else [ENV_COMMENT]), *wanted])
        (self._kept if existed and not added else self._written).append(ENV_FILE)

    def _service_user(self) -> str:
        """The user who runs the daemon, the owner of the folder; empty for a unit of the user's own systemd."""
        if os.geteuid() != 0 and not self._system:
            return ""
        try:
            return self._folder.owner()
        except KeyError:  # a number without a name, as in a container
            return str(self._folder.stat().st_uid)

    def _path(self, name: str) -> Path:
        return self._folder / name

    # --- words

    def report(self) -> Iterator[str]:
        """The files, the outcome of the check, and what is next."""
        yield ""
        if self._written:
            yield f"Wrote {', '.join(self._written)} in {self._folder}."
        if self._kept:
            hint = " To replace what is kept, add --force; .env is never replaced." if self._kept != [ENV_FILE] else ""
            yield f"Kept {', '.join(self._kept)}.{hint}"
        yield from summarize(self._config)
        yield ""
        yield "Next:"
        yield from (f"{number}. {line}" for number, line in enumerate(self._next(), 1))

    def _next(self) -> Iterator[str]:
        command = (
            "" if Path.cwd() == self._folder and not os.environ.get(VARIABLE) else f" --config {self._config.path}"
        )
        environ = self._config.environ
        if not self._config.workers:
            yield f"Add a worker to {self._path(CONFIG)}."
        if self._config.slack.enabled and not all(
            environ.get(each) or environ.get(each + FILE_SUFFIX) for each in TOKENS
        ):
            create = f"Create the Slack app at {APPS}: Create New App, From a manifest. Paste"
            yield f"{create} {MANIFEST}, install the app, and put its tokens into {ENV_FILE}."
        yield f"supervisor doctor{command}"
        yield f"supervisor daemon start{command}"
        if sys.platform == "linux" and has_systemd(Path("/")):
            file, name = self._path(UNIT_NAME), UNIT_NAME.removesuffix(".service")
            commands = ["loginctl enable-linger", f"systemctl --user enable --now {file}"]
            if self._service_user():  # copied, because /home may be mounted later
                sudo = "" if os.geteuid() == 0 else "sudo "
                commands = [f"{sudo}cp {file} {SYSTEM_FOLDER}/", f"{sudo}systemctl enable --now {name}"]
            yield f"Instead, let systemd start it, now and at every boot: {' && '.join(commands)}"


def _program() -> tuple[str, ...]:
    """The command `supervisor` of this installation."""
    script = shutil.which("supervisor", path=sysconfig.get_path("scripts"))
    return (script,) if script else (sys.executable, "-P", "-m", "supervisor_core.cli")


FROM_ENVIRONMENT, LATER = "env", "later"
"""Where the tokens come from, if nobody is asked for them."""

YES = ("y", "yes")
NO = ("n", "no")


class Interview:
    """Asks on a terminal; without one, an option without a value is missing, unless `--yes` takes its default."""

    def __init__(self, options: argparse.Namespace, folder: Path, known: Mapping[str, str]) -> None:
        """`folder` is that of the configuration."""
        self._options = options
        self._folder = folder
        self._checks: dict[str, Callable[[str], object]] = {**CHECKS, "cwd": self._check_folder}
        self._known = known
        """The variables that `.env` sets."""
        self._asks = not options.yes and sys.stdin.isatty() and sys.stdout.isatty()
        self._missing: list[str] = []

    def answers(self) -> tuple[str, Mapping[str, str]]:
        """The configuration as text, and the tokens; `UsageError` names every option that is missing or wrong."""
        options = self._options
        if self._asks:
            print("Enter takes the answer in [ ]. Ctrl-C stops, and nothing is written.\n")
        name = self._text("name", "Name of this host", host_id())
        state = self._text("state-dir", "Folder for its state, on a local disk", DEFAULT_STATE_DIR)
        workers = self._workers()
        drive = self._text("drive", "\nFolder on a shared drive (Enter: no drive)", "")
        slack = self._slack()
        channel, operators = "", ""
        tokens: Mapping[str, str] = {}
        if slack:
            tokens = self._tokens()
            channel = self._text("channel", "Channel for alerts, C… (Enter: later)", "", optional=True)
            people = "People who may run commands, U…, U… (Enter: later)"
            operators = self._text("operators", people, "", optional=True)
        elif options.channel or options.operators or options.tokens:
            raise UsageError("--channel, --operators and --tokens need --slack.")
        if self._missing:
            remedy = "Add them." if options.yes else "Add them, or take the defaults with --yes."
            why = "" if options.yes else "This isn't a terminal, so nothing can be asked. "
            raise UsageError(f"{why}Missing: {', '.join(self._missing)}.", remedy=remedy)
        document: dict[str, Any] = {"supervisor": {"id": name, "state_dir": quoted(state)}}
        if drive:
            document["nas"] = {"root": quoted(drive)}
        document["workers"] = workers
        teams: dict[str, Any] = {each["team"]: {} for each in workers.values() if "team" in each}
        if teams:
            document["teams"] = teams
        access = {"viewers": ["*"], "operators": split_list(operators), "approvers": []}
        document["slack"] = {"alert_channel": channel, "access": access} if slack else {"enabled": False}
        return document_text(document, HEADER, {**COMMENTS, **({} if slack else {"slack": ""})}), tokens

    # --- the workers

    def _workers(self) -> dict[str, dict[str, Any]]:
        given = self._options.worker
        if given is not None:
            return {each["worker"]: self._worker(each) for each in given}
        if not self._asks:
            self._miss("--worker (or --no-worker)")
            return {}
        workers: dict[str, dict[str, Any]] = {}
        print("\nA worker is a program that the supervisor runs.")
        prompt = "Name of a worker, such as fetcher (Enter: none yet)"
        while name := self._prompt("worker", prompt, ""):
            if name.casefold() in map(str.casefold, workers):
                print(f"{name} is there already.")
                continue
            workers[name] = self._worker({"worker": name})
            prompt = "Name of another worker (Enter: no more)"
        return workers

    def _worker(self, given: Mapping[str, str]) -> dict[str, Any]:
        """The section of a worker: what its options say, and the rest by asking."""
        name = given["worker"]
        self._check("worker", name)
        asked = dict(given)
        if self._asks:
            questions = {
                "command": (f"Command line of {name}", None),
                "cwd": ("Working directory", "."),
                "heartbeat": ("Heartbeat timeout in seconds (Enter for none)", ""),
                "team": ("Its team (Enter: none)", ""),
            }
            for option, (prompt, default) in questions.items():
                if option not in given:
                    asked[option] = self._prompt(option, prompt, default)
        for option in ("command", "cwd", "heartbeat", "team"):
            if asked.get(option):
                self._check(option, asked[option])
        if not asked.get("command"):
            self._missing.append(f"--command, for the worker {name}")
            return {}
        section: dict[str, Any] = {"command": command_words(asked["command"])}
        folder = asked.get("cwd", "")
        if folder not in ("", "."):
            section["cwd"] = quoted(folder)
            if is_in_checkout(self._folder / Path(folder).expanduser()):
                section["code"] = {"path": section["cwd"]}
        heartbeat = float(asked.get("heartbeat") or 0)
        section["heartbeat_max_age_seconds"] = int(heartbeat) if heartbeat.is_integer() else heartbeat
        return {**section, **({"team": asked["team"]} if asked.get("team") else {})}

    def _check_folder(self, text: str) -> None:
        """Refuse a folder that isn't there: its worker couldn't start, and nobody knows yet if it's a checkout."""
        _line(text)
        if not (self._folder / Path(text).expanduser()).is_dir():
            raise Invalid("isn't a folder of this host; create it first, or correct the path")

    # --- Slack

    def _slack(self) -> bool:
        given: bool | None = self._options.slack
        if given is not None:
            return given
        if not self._asks:
            self._miss("--slack or --no-slack")
            return False
        while (answer := self._read("Control it from Slack? [Y/n]", secret=False).lower() or YES[0]) not in (*YES, *NO):
            print("Answer y or n.")
        return answer in YES

    def _tokens(self) -> Mapping[str, str]:
        """The tokens that `.env` doesn't have yet, as far as they are known."""
        wanted = [name for name in TOKENS if name not in self._known]
        if self._options.tokens == FROM_ENVIRONMENT:
            found = {name: os.environ[name] for name in wanted if os.environ.get(name)}
            if unset := [name for name in wanted if name not in found]:
                raise UsageError(f"--tokens env: {' and '.join(unset)} isn't set.", remedy="Set it, or add it later.")
            for name, token in found.items():
                self._check(name, token, "")
            return found
        if self._options.tokens == LATER or not self._asks:
            return {}
        kinds = {name: f"{'Bot' if 'BOT' in name else 'App'} token, {TOKENS[name]}…" for name in wanted}
        typed = {name: self._prompt(name, f"{kind} (isn't shown; Enter: later)", "") for name, kind in kinds.items()}
        return {name: token for name, token in typed.items() if token}

    # --- one question

    def _text(self, option: str, prompt: str, default: str, *, optional: bool = False) -> str:
        """The answer to a question with a default. An `optional` one may be missing without a terminal."""
        given: str | None = getattr(self._options, option.replace("-", "_"))
        if given is not None:
            if given or default:
                self._check(option, given)
            return given
        if self._asks:
            return self._prompt(option, prompt, default)
        if not optional:
            self._miss(f"--{option}")
        return default

    def _miss(self, option: str) -> None:
        if not self._options.yes:
            self._missing.append(option)

    def _check(self, option: str, answer: str, dashes: str = "--") -> None:
        try:
            self._checks[option](answer)
        except Invalid as problem:
            value = "" if option in TOKENS else f" {answer!a}"
            raise UsageError(f"{dashes}{option}{value} {problem}.") from None

    def _prompt(self, option: str, prompt: str, default: str | None) -> str:
        """Ask until the answer is valid. Enter takes the default, if there is one."""
        shown = f"{prompt} [{default}]" if default else prompt
        while True:
            answer = self._read(shown, secret=option in TOKENS).strip()
            if not answer and default is not None:
                return default
            try:
                self._checks[option](answer)
            except Invalid as problem:
                wrong = f"{answer!a}" if answer and option not in TOKENS else "It"
                print(fit(f"{wrong} {problem}."))
            else:
                return answer

    @staticmethod
    def _read(prompt: str, *, secret: bool) -> str:
        try:
            return getpass.getpass(f"{prompt}: ") if secret else input(f"{prompt}: ")
        except EOFError:
            raise KeyboardInterrupt from None


HEADER = """\
# The supervisor of this host. Check changes with `supervisor config check`.
# Every setting is described in docs/reference/configuration.md.
"""
COMMENTS = {
    "workers": "The programs that the supervisor runs.",
    "slack": "The tokens are in .env. Ids don't change when names do: U… for people, C… for channels.\n"
    "Operators run commands, approvers agree to updates and rollbacks, viewers only look.",
    "nas": "The shared drive, which must be mounted.",
}
ENV_COMMENT = "# Variables of config.yaml, as NAME=value. Keep this file secret."
TOKENS = {BOT_TOKEN: "xoxb-", APP_TOKEN: "xapp-"}
"""Slack's tokens, by their variables, and how each begins."""

OF_A_SHELL = frozenset({"&&", "||", "|", "&", ";", ">", ">>", "<", "2>", "2>&1"})
LONGEST_AGE = 86_400.0
_SPECIAL = re.compile(rf"(\$\{{[A-Za-z_][A-Za-z0-9_]*(?::[^}}]*)?\}}|\{{(?:{'|'.join(PLACEHOLDERS)})\}})|[$\{{\}}]")
"""A variable or a placeholder, which stays; else a sign that is written twice to mean itself."""


def command_words(text: str) -> list[str]:
    """The words of a command line, for `workers.ID.command`; `Invalid` for what only a shell understands."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise Invalid(f"isn't a command line: {str(error).lower()}") from None
    if not words:
        raise Invalid("is empty; example: python3 fetch.py --all")
    if found := [each for each in words if each in OF_A_SHELL]:
        raise Invalid(f"has {found[0]}, but no shell runs it; write sh -c '…' around it, or put it into a script")
    return [_SPECIAL.sub(lambda found: found[1] or found[0] * 2, each) for each in words]


def _line(text: str) -> None:
    if not text.isprintable():
        raise Invalid("must be one line of text")


def _age(text: str) -> None:
    if not re.fullmatch(r"[0-9]{1,5}(?:\.[0-9]{1,3})?", text) or float(text) > LONGEST_AGE:
        raise Invalid(f"must be a number of seconds, up to {LONGEST_AGE:.0f}")


def _check_of(setting: object) -> Callable[[str], object]:
    check: Callable[[str], object] = get_args(setting)[1].func
    return check


def _token(name: str) -> Callable[[str], None]:
    def check(text: str) -> None:
        if not re.fullmatch(rf"{TOKENS[name]}[A-Za-z0-9-]+", text):
            raise Invalid(f"must start with {TOKENS[name]}, followed by letters, digits and hyphens")

    return check


def split_list(text: str) -> list[str]:
    """The items of a list that is separated by commas or spaces."""
    return text.replace(",", " ").split()


CHECKS: Mapping[str, Callable[[str], object]] = {
    "name": _check_of(HostId),
    "state-dir": _line,
    "worker": _check_of(WorkerId),
    "command": command_words,
    "heartbeat": _age,
    "team": _check_of(TeamName),
    "drive": _line,
    "channel": _check_of(ChannelId),
    "operators": lambda text: [_check_of(PersonId)(each) for each in split_list(text)],
    BOT_TOKEN: _token(BOT_TOKEN),
    APP_TOKEN: _token(APP_TOKEN),
}
"""The check of each answer, by its option; it raises `Invalid`, whose text continues a sentence."""


UNIT_NAME = "supervisor-chatops.service"
SYSTEM_FOLDER = "/etc/systemd/system"

_TEMPLATE = """\
# {place}
[Unit]
Description=Supervisor of this host's workers
{after}# Retry forever, instead of giving up after the fifth failed start.
StartLimitIntervalSec=0

[Service]
Type=notify
NotifyAccess=main
{user}ExecStart={command}
Restart=always
RestartSec=2
# An invalid configuration is still invalid two seconds later.
RestartPreventExitStatus=2
# A start waits up to 60 s for a running pass, then for its services.
TimeoutStartSec=3min
# Restart a daemon that hangs. Its workers keep running.
WatchdogSec=60
# Keep workers running when the daemon stops, or when the kernel kills one for its memory.
KillMode=process
OOMPolicy=continue
# A stop finishes the running command. One that takes longer than 10 min is cut off and reported as interrupted.
TimeoutStopSec=620
# These also apply to workers. Remove them if a worker must use sudo. Don't add PrivateTmp, ProtectSystem or
# RuntimeDirectory: workers outlive the daemon and would keep an old view of the disks.
NoNewPrivileges=yes
RestrictSUIDSGID=yes
LockPersonality=yes

[Install]
WantedBy={target}
"""

_AFTER = "After=network-online.target remote-fs.target\nWants=network-online.target\n"


def service_unit(program: Sequence[str], config: str, user: str = "") -> str:
    """The unit that runs the daemon by the command `supervisor` of this installation: as this user, or without one
    in a user's own systemd."""
    words = (*program, "run", "--config", config)
    return _TEMPLATE.format(
        place=f"{SYSTEM_FOLDER}/{UNIT_NAME}",
        after=_AFTER if user else "",
        user=f"User={user}\n" if user else "",
        command=" ".join(quoted_word(word, program=place == 0) for place, word in enumerate(words)),
        target="multi-user.target" if user else "default.target",
    )
