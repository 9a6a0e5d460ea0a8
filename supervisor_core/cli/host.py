"""Shared by the subcommands: the configuration, the approvals, the daemon and the person at the shell.

It imports nothing slow.
"""

from __future__ import annotations

import sys

from supervisor_core.common.errors import ConfigError, SupervisorError, UsageError
from supervisor_core.config.raw import read_raw, state_dir_of
from supervisor_core.daemon.control.client import NotRunningError, UnresponsiveError, ask

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from supervisor_core.commands.command import Command, Issuer
    from supervisor_core.config.load import SupervisorConfig
    from supervisor_core.config.raw import RawConfig
    from supervisor_core.intake.approvals.observed_state import Previews
    from supervisor_core.intake.approvals.service import Approvals
    from supervisor_core.storage.store import Ledger

RELAY_SECONDS = 25.0

_warned: set[str] = set()


def read_config(path: str | None) -> RawConfig:
    """The raw configuration, which is quick; while its file is broken, the last good one with a warning."""
    try:
        raw = read_raw(path)
        state_dir_of(raw)
    except ConfigError as error:
        from supervisor_core.daemon.configuration.last_good import read_last_good

        last_good = read_last_good(path)
        if last_good is None:
            raise
        raw = last_good
        _warn(error.message)
    return raw


def load_config(path: str | None) -> SupervisorConfig:
    """The configuration; while its file is broken, the last good one with a warning."""
    from supervisor_core.daemon.configuration import last_good

    config, problem = last_good.load_or_last_good(path)
    _warn(problem)
    return config


def load_fleet_config(path: str | None) -> SupervisorConfig:
    """The same; on a hub, with the workers of all hosts as they announced them last."""
    config = load_config(path)
    if config.fleet.role != "hub":
        return config
    from supervisor_core.commands.addresses import Address
    from supervisor_core.daemon.environment import opened_ledger
    from supervisor_core.fleet.hub.fleet import fleet_configuration
    from supervisor_core.fleet.members import FleetMembers, HostState

    with opened_ledger(config) as ledger:
        hosts = [host for host in FleetMembers(ledger).hosts() if host.state is HostState.JOINED]
    announced = {str(Address(host.host_id, str(worker["id"]))): worker for host in hosts for worker in host.announced}
    return fleet_configuration(config, announced)


def _warn(problem: str) -> None:
    """Print once, in one line, that the file is broken and where."""
    if not problem or _warned:
        return
    from supervisor_core.common.text import printable

    _warned.add(problem)
    first, *other_lines = problem.splitlines()
    count = f" (and {len(other_lines)} more)" if other_lines else ""
    print(printable(f"supervisor: {first}{count}. Using the last good configuration."), file=sys.stderr)


def ask_hosts(config: SupervisorConfig, question: str, workers: Sequence[str], count: int = 0) -> list[dict[str, Any]]:
    """The answers of other hosts through the hub's daemon: each with its `host`, and an `answer` or an `error`."""
    request = {"do": "relay", "question": question, "workers": list(workers), "count": count}
    try:
        answers: list[dict[str, Any]] = ask(str(config.state_dir), request, RELAY_SECONDS)["answers"]
    except NotRunningError:
        raise UsageError(
            "Other hosts are asked through the hub's daemon, which isn't running.",
            remedy="Run `supervisor daemon start`.",
        ) from None
    except UnresponsiveError:
        raise SupervisorError(
            "Other hosts are asked through the hub's daemon, which doesn't answer.",
            remedy="Look with `supervisor status`, then try again.",
        ) from None
    return answers


def approvals_of(config: SupervisorConfig, ledger: Ledger) -> Approvals:
    from supervisor_core.intake.approvals.service import Approvals

    def observe(command: Command) -> Previews:
        from dataclasses import replace

        from supervisor_core.intake.approvals.observed_state import observer
        from supervisor_core.workers.context import open_doors

        host = replace(open_doors(config), ledger=ledger)
        return observer(lambda: host)(command)

    return Approvals(ledger, lambda: config, observe)


def wake(config: SupervisorConfig) -> bool:
    """Make the daemon look for new work; False when none runs. A slow one finds it later on its own."""
    try:
        ask(str(config.state_dir), {"do": "wake"})
    except NotRunningError:
        return False
    except UnresponsiveError:
        pass
    return True


def shell_issuer() -> Issuer:
    """`cli:anna`: the person at this shell."""
    from supervisor_core.commands.command import Issuer
    from supervisor_core.host.callers import own_person

    name = own_person()
    return Issuer(f"cli:{name}", name)


def caller_fields() -> dict[str, str]:
    """The fields of a request that name its person. The daemon checks them."""
    from supervisor_core.host.callers import own_person, sudo_user

    return {"user": own_person(), "sudo_user": sudo_user()}


def parse_since_option(text: str | None) -> str | None:
    """The option `--since` in the grammar's form; `UsageError` if it isn't a time."""
    from supervisor_core.common.times import parse_since

    since = parse_since(text) if text is not None else None
    if text is not None and since is None:
        raise UsageError(f"--since {text!a} isn't a time. Try 30s, 12h, 2d, yesterday or 2026-01-31.")
    return since
