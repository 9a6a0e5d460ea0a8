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
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from supervisor_core.cli.arguments import Subparsers, add_command
from supervisor_core.cli.config import summarize
from supervisor_core.cli.importing import importable
from supervisor_core.cli.output import fit
from supervisor_core.common.errors import UsageError
from supervisor_core.config.fields import ChannelId, HostId, PersonId, TeamName, WorkerId, host_id
from supervisor_core.config.load import SupervisorConfig, check_raw, load_supervisor_config
from supervisor_core.config.raw import DEFAULT_STATE_DIR, ENV_FILE, VARIABLE, parse_env, parse_raw
from supervisor_core.config.sections import Invalid, apply_rules, split_rules
from supervisor_core.config.setup.files import READABLE_FILE, add_variables, document_text, write_file
from supervisor_core.config.setup.imports.conversion import is_in_checkout, quoted
from supervisor_core.config.setup.unit_files import quoted_word
from supervisor_core.config.slack_credentials import APP_TOKEN, BOT_TOKEN, FILE_SUFFIX
from supervisor_core.config.worker_settings import PLACEHOLDERS
from supervisor_core.daemon.chat import installed_chat
from supervisor_core.doctor.units import has_systemd
from supervisor_core.host.files import FileTaken

CONFIG, MANIFEST, UNIT = "config.yaml", "manifest.yml", "supervisor-chatops.service"
SYSTEM_FOLDER = "/etc/systemd/system"
APPS = "https://api.slack.com/apps"
TOKENS = {BOT_TOKEN: "xoxb-", APP_TOKEN: "xapp-"}
"""Slack's tokens, by their variables, and how each begins."""

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


def run(arguments: argparse.Namespace) -> int:
    """Write what is missing. Every file is written whole, so a second run completes an interrupted one."""
    if arguments.config is not None:
        raise UsageError("`supervisor init` takes a folder.", remedy="Run `supervisor init FOLDER`.")
    folder, text, tokens = Path(arguments.folder).expanduser().absolute(), "", dict[str, str]()
    path = folder / ENV_FILE
    settings, _ = parse_env(path.read_text(encoding="utf-8", errors="replace")) if path.is_file() else ({}, [])
    variables = {name.removesuffix(FILE_SUFFIX) for name, value in settings.items() if value}
    if os.path.lexists(folder / CONFIG) and not arguments.force:
        config = load_supervisor_config(folder / CONFIG)
        about_config = ("name", "state_dir", "worker", "drive", "slack", "tokens", "channel", "operators")
        if any(getattr(arguments, name) is not None for name in about_config):
            print(fit(f"{CONFIG} is kept, so the options about it have no effect. Edit it, or add --force."))
    else:
        print(fit(f"Sets up a supervisor in {folder}."))
        for other in importable(folder):
            print(fit(f"Found {other}. To take over its workers, run `supervisor import {other}` first."))
        try:
            text, tokens = Interview(arguments, folder, variables).run()
        except KeyboardInterrupt:
            print("\nNothing was written.")
            raise
        config = check_raw(parse_raw(text, str(folder / CONFIG)))
    folder.mkdir(parents=True, exist_ok=True)
    user = _service_user(folder, system=arguments.system)
    written, kept = _write_files(folder, config, text, tokens, variables, user, force=arguments.force)
    config = load_supervisor_config(folder / CONFIG)
    lines = ["", f"Wrote {', '.join(written)} in {folder}."] if written else [""]
    if kept:
        hint = " To replace what is kept, add --force; .env is never replaced." if kept != [ENV_FILE] else ""
        lines.append(f"Kept {', '.join(kept)}.{hint}")
    lines += [*summarize(config), "", "Next:"]
    lines += [f"{number}. {line}" for number, line in enumerate(_next_steps(folder, config, user), 1)]
    for line in lines:
        print(fit(line))
    return 0


def _service_user(folder: Path, *, system: bool) -> str:
    """The user who runs the daemon, the owner of the folder; empty for a unit of the user's own systemd."""
    if os.geteuid() != 0 and not system:
        return ""
    try:
        return folder.owner()
    except KeyError:  # a number without a name, as in a container
        return str(folder.stat().st_uid)


def _write_files(
    folder: Path,
    config: SupervisorConfig,
    text: str,
    tokens: Mapping[str, str],
    variables: Collection[str],
    user: str,
    *,
    force: bool,
) -> tuple[list[str], list[str]]:
    """Write all files; those that are there are kept, unless `force`. Returns the names of both.

    Without `text`, the configuration is kept. In `.env`, existing values stay, and an unknown token gets a line to fill
    in.
    """
    has_chat = config.slack.enabled and config.fleet.role != "host"
    lines = [f"# {name}={start}…" for name, start in TOKENS.items() if has_chat and name not in {*tokens, *variables}]
    existed = (folder / ENV_FILE).exists()
    added = add_variables(folder / ENV_FILE, tokens, [*([] if existed else [ENV_COMMENT]), *lines])
    written, kept = ([], [ENV_FILE]) if existed and not added else ([ENV_FILE], [])
    files = {CONFIG: (text, 0o600)}
    if has_chat:
        files[MANIFEST] = (installed_chat().manifest(), READABLE_FILE)
    if sys.platform == "linux":
        script = shutil.which("supervisor", path=sysconfig.get_path("scripts"))
        program = (script,) if script else (sys.executable, "-P", "-m", "supervisor_core.cli")
        files[UNIT] = (service_unit(program, str(config.path), user), READABLE_FILE)
    for name, (content, mode) in files.items():
        try:
            if not content:
                raise FileTaken
            write_file(folder / name, content, replace=force, mode=mode)
        except FileTaken:
            kept.append(name)
        else:
            written.append(name)
    return written, kept


def _next_steps(folder: Path, config: SupervisorConfig, user: str) -> Iterator[str]:
    is_default = Path.cwd() == folder and not os.environ.get(VARIABLE)
    option, environ = "" if is_default else f" --config {config.path}", config.environ
    if not config.workers:
        yield f"Add a worker to {folder / CONFIG}."
    if config.slack.enabled and not all(environ.get(name) or environ.get(name + FILE_SUFFIX) for name in TOKENS):
        create = f"Create the Slack app at {APPS}: Create New App, From a manifest. Paste"
        yield f"{create} {MANIFEST}, install the app, and put its tokens into {ENV_FILE}."
    yield f"supervisor doctor{option}"
    yield f"supervisor daemon start{option}"
    if sys.platform == "linux" and has_systemd(Path("/")):
        file, name = folder / UNIT, UNIT.removesuffix(".service")
        commands = ["loginctl enable-linger", f"systemctl --user enable --now {file}"]
        if user:  # copied, because /home may be mounted later
            sudo = "" if os.geteuid() == 0 else "sudo "
            commands = [f"{sudo}cp {file} {SYSTEM_FOLDER}/", f"{sudo}systemctl enable --now {name}"]
        yield f"Instead, let systemd start it, now and at every boot: {' && '.join(commands)}"


class Interview:
    """Asks on a terminal; without one, an option without a value is missing, unless `--yes` takes its default."""

    def __init__(self, arguments: argparse.Namespace, folder: Path, variables: Collection[str]) -> None:
        """`folder` is that of the configuration; `variables` are those that `.env` sets."""
        self._arguments = arguments
        self._folder = folder
        self._variables = variables
        self._is_interactive = not arguments.yes and sys.stdin.isatty() and sys.stdout.isatty()
        self._checks = {**CHECKS, "cwd": self._check_folder}
        self._missing: list[str] = []

    def run(self) -> tuple[str, dict[str, str]]:
        """The configuration as text, and the tokens; `UsageError` names every option that is missing or wrong."""
        arguments, channel, operators, tokens = self._arguments, "", "", dict[str, str]()
        if self._is_interactive:
            print("Enter takes the answer in [ ]. Ctrl-C stops, and nothing is written.\n")
        name = self._answer("name", "Name of this host", host_id())
        state = self._answer("state-dir", "Folder for its state, on a local disk", DEFAULT_STATE_DIR)
        workers = self._workers()
        drive = self._answer("drive", "\nFolder on a shared drive (Enter: no drive)", "")
        has_slack = arguments.slack
        if has_slack is None and self._is_interactive:
            while (answer := _read("Control it from Slack? [Y/n]").lower() or "y") not in ("y", "yes", "n", "no"):
                print("Answer y or n.")
            has_slack = answer in ("y", "yes")
        elif has_slack is None:
            self._report_missing("--slack or --no-slack")
        if has_slack:
            tokens = self._tokens()
            channel = self._answer("channel", "Channel for alerts, C… (Enter: later)", "", required=False)
            people = "People who may run commands, U…, U… (Enter: later)"
            operators = self._answer("operators", people, "", required=False)
        elif arguments.channel or arguments.operators or arguments.tokens:
            raise UsageError("--channel, --operators and --tokens need --slack.")
        if self._missing:
            remedy = "Add them." if arguments.yes else "Add them, or take the defaults with --yes."
            why = "" if arguments.yes else "This isn't a terminal, so nothing can be asked. "
            raise UsageError(f"{why}Missing: {', '.join(self._missing)}.", remedy=remedy)
        document: dict[str, Any] = {"supervisor": {"id": name, "state_dir": quoted(state)}}
        if drive:
            document["nas"] = {"root": quoted(drive)}
        document["workers"] = workers
        if any("team" in worker for worker in workers.values()):
            document["teams"] = {worker["team"]: {} for worker in workers.values() if "team" in worker}
        access = {"viewers": ["*"], "operators": split_list(operators), "approvers": []}
        document["slack"] = {"alert_channel": channel, "access": access} if has_slack else {"enabled": False}
        return document_text(document, HEADER, COMMENTS if has_slack else {**COMMENTS, "slack": ""}), tokens

    def _workers(self) -> dict[str, dict[str, Any]]:
        workers: dict[str, dict[str, Any]] = {}
        if self._arguments.worker is not None:
            for options in self._arguments.worker:
                workers[options["worker"]] = self._worker(options)
        elif not self._is_interactive:
            self._report_missing("--worker (or --no-worker)")
        else:
            print("\nA worker is a program that the supervisor runs.")
            prompt = "Name of a worker, such as fetcher (Enter: none yet)"
            while name := self._ask("worker", prompt, ""):
                if name.casefold() in map(str.casefold, workers):
                    print(f"{name} is there already.")
                    continue
                workers[name] = self._worker({"worker": name})
                prompt = "Name of another worker (Enter: no more)"
        return workers

    def _worker(self, options: Mapping[str, str]) -> dict[str, Any]:
        """The section of a worker: what its options say, and the rest by asking."""
        answers, name = dict(options), options["worker"]
        self._check("worker", name)
        questions = {
            "command": (f"Command line of {name}", None),
            "cwd": ("Working directory", "."),
            "heartbeat": ("Heartbeat timeout in seconds (Enter for none)", ""),
            "team": ("Its team (Enter: none)", ""),
        }
        for option, (prompt, default) in questions.items():
            if self._is_interactive and option not in options:
                answers[option] = self._ask(option, prompt, default)
            if answers.get(option):
                self._check(option, answers[option])
        if not answers.get("command"):
            self._missing.append(f"--command, for the worker {name}")
            return {}
        section: dict[str, Any] = {"command": split_command(answers["command"])}
        folder, heartbeat = answers.get("cwd", ""), float(answers.get("heartbeat") or 0)
        if folder not in ("", "."):
            section["cwd"] = quoted(folder)
            if is_in_checkout(self._folder / Path(folder).expanduser()):
                section["code"] = {"path": section["cwd"]}
        section["heartbeat_max_age_seconds"] = int(heartbeat) if heartbeat.is_integer() else heartbeat
        return section | ({"team": answers["team"]} if answers.get("team") else {})

    def _tokens(self) -> dict[str, str]:
        """The tokens that `.env` doesn't have yet, as far as they are known."""
        names = [name for name in TOKENS if name not in self._variables]
        if self._arguments.tokens == "env":
            tokens = {name: os.environ.get(name, "") for name in names}
            if unset := [name for name, token in tokens.items() if not token]:
                raise UsageError(f"--tokens env: {' and '.join(unset)} isn't set.", remedy="Set it, or add it later.")
            for name, token in tokens.items():
                self._check(name, token)
            return tokens
        if self._arguments.tokens == "later" or not self._is_interactive:
            return {}
        kinds = {name: f"{'Bot' if name == BOT_TOKEN else 'App'} token, {TOKENS[name]}…" for name in names}
        answers = {name: self._ask(name, f"{kind} (isn't shown; Enter: later)", "") for name, kind in kinds.items()}
        return {name: token for name, token in answers.items() if token}

    def _answer(self, option: str, prompt: str, default: str, *, required: bool = True) -> str:
        """The value of an option, or the answer on a terminal; without one, a `required` option is missing."""
        given: str | None = getattr(self._arguments, option.replace("-", "_"))
        if given is not None:
            if given or default:
                self._check(option, given)
            return given
        if self._is_interactive:
            return self._ask(option, prompt, default)
        if required:
            self._report_missing(f"--{option}")
        return default

    def _ask(self, option: str, prompt: str, default: str | None) -> str:
        """Ask until the answer is valid. Enter takes the default, if there is one."""
        is_token = option in TOKENS
        while True:
            answer = _read(f"{prompt} [{default}]" if default else prompt, hidden=is_token).strip()
            if not answer and default is not None:
                return default
            try:
                self._checks[option](answer)
            except Invalid as problem:
                print(fit(f"{ascii(answer) if answer and not is_token else 'It'} {problem}."))
            else:
                return answer

    def _check(self, option: str, value: str) -> None:
        try:
            self._checks[option](value)
        except Invalid as problem:
            name = option if option in TOKENS else f"--{option} {value!a}"
            raise UsageError(f"{name} {problem}.") from None

    def _check_folder(self, text: str) -> None:
        """Refuse a folder that isn't there: its worker couldn't start, and nobody knows yet if it's a checkout."""
        _check_line(text)
        if not (self._folder / Path(text).expanduser()).is_dir():
            raise Invalid("isn't a folder of this host; create it first, or correct the path")

    def _report_missing(self, option: str) -> None:
        if not self._arguments.yes:
            self._missing.append(option)


def _read(prompt: str, *, hidden: bool = False) -> str:
    try:
        return getpass.getpass(f"{prompt}: ") if hidden else input(f"{prompt}: ")
    except EOFError:
        raise KeyboardInterrupt from None


SHELL_SIGNS = frozenset({"&&", "||", "|", "&", ";", ">", ">>", "<", "2>", "2>&1"})
MAX_AGE = 86_400.0
_SPECIAL = re.compile(rf"(\$\{{[A-Za-z_][A-Za-z0-9_]*(?::[^}}]*)?\}}|\{{(?:{'|'.join(PLACEHOLDERS)})\}})|[$\{{\}}]")
"""A variable or a placeholder, which stays; else a sign that is written twice to mean itself."""


def split_command(text: str) -> list[str]:
    """The words of a command line, for `workers.ID.command`; `Invalid` for what only a shell understands."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise Invalid(f"isn't a command line: {str(error).lower()}") from None
    if not words:
        raise Invalid("is empty; example: python3 fetch.py --all")
    if signs := [word for word in words if word in SHELL_SIGNS]:
        raise Invalid(f"has {signs[0]}, but no shell runs it; write sh -c '…' around it, or put it into a script")
    return [_SPECIAL.sub(lambda match: match[1] or match[0] * 2, word) for word in words]


def split_list(text: str) -> list[str]:
    """The items of a list that is separated by commas or spaces."""
    return text.replace(",", " ").split()


def _check_line(text: str) -> None:
    if not text.isprintable():
        raise Invalid("must be one line of text")


def _check_age(text: str) -> None:
    if not re.fullmatch(r"[0-9]{1,5}(?:\.[0-9]{1,3})?", text) or float(text) > MAX_AGE:
        raise Invalid(f"must be a number of seconds, up to {MAX_AGE:.0f}")


def _check_token(start: str, text: str) -> None:
    if not re.fullmatch(rf"{start}[A-Za-z0-9-]+", text):
        raise Invalid(f"must start with {start}, followed by letters, digits and hyphens")


def _check_setting(setting: object, text: str) -> None:
    apply_rules(split_rules(setting)[1], text)


CHECKS: Mapping[str, Callable[[str], object]] = {
    "name": partial(_check_setting, HostId),
    "state-dir": _check_line,
    "worker": partial(_check_setting, WorkerId),
    "command": split_command,
    "heartbeat": _check_age,
    "team": partial(_check_setting, TeamName),
    "drive": _check_line,
    "channel": partial(_check_setting, ChannelId),
    "operators": lambda text: list(map(partial(_check_setting, PersonId), split_list(text))),
    **{name: partial(_check_token, start) for name, start in TOKENS.items()},
}
"""The check of each answer, by its option; it raises `Invalid`, whose text continues a sentence."""


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
        place=f"{SYSTEM_FOLDER}/{UNIT}",
        after=_AFTER if user else "",
        user=f"User={user}\n" if user else "",
        command=" ".join(quoted_word(word, program=index == 0) for index, word in enumerate(words)),
        target="multi-user.target" if user else "default.target",
    )
