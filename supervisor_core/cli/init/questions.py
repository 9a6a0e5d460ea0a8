"""The questions of `supervisor init`: answered by options, on a terminal, or by defaults, each answer checked."""

from __future__ import annotations

import argparse
import getpass
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from supervisor_core.cli.table import fit
from supervisor_core.common.errors import UsageError
from supervisor_core.common.section_checks import Invalid
from supervisor_core.config.names import host_id
from supervisor_core.config.raw import DEFAULT_STATE_DIR
from supervisor_core.config.setup.answers import CHECKS, TOKENS, NewHost, NewWorker, check_worker_folder, split_list

FROM_ENVIRONMENT, LATER = "env", "later"
"""Where the tokens come from, if nobody is asked for them."""

YES = ("y", "yes")
NO = ("n", "no")


@dataclass(frozen=True, slots=True)
class SetupAnswers:
    """All answers: those of the configuration, and the tokens."""

    host: NewHost
    tokens: Mapping[str, str] = field(default_factory=dict)


class Interview:
    """Asks on a terminal; without one, an option without a value is missing, unless `--yes` takes its default."""

    def __init__(self, options: argparse.Namespace, folder: Path, known: Mapping[str, str]) -> None:
        """`folder` is that of the configuration."""
        self._options = options
        self._checks: dict[str, Callable[[str], None]] = {**CHECKS, "cwd": partial(check_worker_folder, folder)}
        self._known = known
        """The variables that `.env` sets."""
        self._asks = not options.yes and sys.stdin.isatty() and sys.stdout.isatty()
        self._missing: list[str] = []

    def answers(self) -> SetupAnswers:
        """All answers; `UsageError` names every option that is missing or wrong."""
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
        host = NewHost(name, state, workers, drive, slack, channel, split_list(operators))
        return SetupAnswers(host, tokens)

    # --- the workers

    def _workers(self) -> tuple[NewWorker, ...]:
        given = self._options.worker
        if given is not None:
            return tuple(self._worker(each) for each in given)
        if not self._asks:
            self._miss("--worker (or --no-worker)")
            return ()
        workers: list[NewWorker] = []
        print("\nA worker is a program that the supervisor runs.")
        prompt = "Name of a worker, such as fetcher (Enter: none yet)"
        while name := self._prompt("worker", prompt, ""):
            if name.casefold() in (each.worker_id.casefold() for each in workers):
                print(f"{name} is there already.")
                continue
            workers.append(self._worker({"worker": name}))
            prompt = "Name of another worker (Enter: no more)"
        return tuple(workers)

    def _worker(self, given: Mapping[str, str]) -> NewWorker:
        """One worker: what its options say, and the rest by asking."""
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
        heartbeat = float(asked.get("heartbeat") or 0)
        return NewWorker(name, asked.get("command", ""), asked.get("cwd", ""), heartbeat, asked.get("team", ""))

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
