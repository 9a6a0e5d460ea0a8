"""`supervisor init`: writes the files of a host into a folder, checks them, and says what is next."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from supervisor_core.cli.config import summary
from supervisor_core.cli.importing import importable
from supervisor_core.cli.init.questions import Interview
from supervisor_core.cli.table import fit
from supervisor_core.common.errors import UsageError
from supervisor_core.config.load import SupervisorConfig, check_raw, load_supervisor_config
from supervisor_core.config.raw import ENV_FILE, VARIABLE, parse_env, parse_raw
from supervisor_core.config.setup.answers import ENV_COMMENT, TOKENS
from supervisor_core.config.setup.files import READABLE_FILE, add_variables, write_file
from supervisor_core.config.setup.service_unit import UNIT_NAME, ServiceUnit
from supervisor_core.config.slack_settings import FILE_SUFFIX
from supervisor_core.daemon.wiring import installed_chat
from supervisor_core.doctor.units import has_systemd
from supervisor_core.host.files import FileTaken

CONFIG, MANIFEST = "config.yaml", "manifest.yml"

ABOUT_CONFIG = ("name", "state_dir", "worker", "drive", "slack", "tokens", "channel", "operators")
"""The options whose values are in the configuration."""

APPS = "https://api.slack.com/apps"


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
        answers = Interview(options, folder, _variables(folder)).answers()
    except KeyboardInterrupt:
        print("\nNothing was written.")
        raise
    text = answers.host.text(folder)
    config = check_raw(parse_raw(text, str(folder / CONFIG)))
    return Setup(folder, config, text, answers.tokens, force=options.force, system=options.system)


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
            self._write(UNIT_NAME, self._unit().text, READABLE_FILE)
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

    def _unit(self) -> ServiceUnit:
        return ServiceUnit(_program(), str(self._config.path), self._service_user())

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
        yield from summary(self._config)
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
            commands = self._unit().commands(str(self._path(UNIT_NAME)), os.geteuid() == 0)
            yield f"Instead, let systemd start it, now and at every boot: {' && '.join(commands)}"


def _program() -> tuple[str, ...]:
    """The command `supervisor` of this installation."""
    script = shutil.which("supervisor", path=sysconfig.get_path("scripts"))
    return (script,) if script else (sys.executable, "-P", "-m", "supervisor_core.cli")
