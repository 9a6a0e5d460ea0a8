"""What doctor says of systemd, of containers, and of other supervisors that are silent."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from supervisor_core.config.load import SupervisorConfig, load_supervisor_config
from supervisor_core.daemon.handlers import STOP_LIMIT_SECONDS
from supervisor_core.daemon.ownership import DAEMON_LOCK
from supervisor_core.doctor import units
from supervisor_core.doctor import units as service
from supervisor_core.doctor.checks import CheckResult
from supervisor_core.doctor.table import results_text
from supervisor_core.host.locks import FileLock
from supervisor_core.host.process_facts.identity import identify
from supervisor_core.processes.records import RUNNING, WorkerRecord, prepare_folder, write_record
from tests.support.homes import ROOT

RIGHT = {
    "LoadState": "loaded",
    "Type": "notify",
    "KillMode": "process",
    "OOMPolicy": "continue",
    "WatchdogUSec": "1min",
    "TimeoutStopUSec": "10min 20s",
}
DAEMON, PASS = "supervisor-chatops.service", "supervisor-chatops-pass@OrionMX.service"
SYSTEMCTL = """#!/bin/sh
echo "$*" >> "{folder}/asked"
user=
[ "$1" = --user ] && user=user- && shift
shift 3
first=yes
for unit in "$@"; do
    [ -n "$first" ] || echo
    first=
    if [ -f "{folder}/$user$unit" ]; then echo "Id=$unit"; cat "{folder}/$user$unit"
    else printf 'Id=%s\\nLoadState=not-found\\nKillMode=control-group\\n' "$unit"; fi
done
"""


class System:
    """A system's folders, and a real program `systemctl` that tells of the units in one of them."""

    def __init__(self, folder: Path) -> None:
        self.root, self.units = folder / "root", folder / "units"
        (self.root / "run/systemd/system").mkdir(parents=True)
        self.units.mkdir()
        self.program(SYSTEMCTL.format(folder=self.units))

    def program(self, text: str) -> None:
        path = self.units / "systemctl"
        path.write_text(text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def lives_in(self, cgroup: str, pid: int | str | None = None) -> None:
        place = self.root / "proc" / str(pid or os.getpid())
        place.mkdir(parents=True, exist_ok=True)
        (place / "cgroup").write_text(cgroup)

    def unit(self, name: str, **values: str) -> None:
        (self.units / name).write_text("".join(f"{key}={value}\n" for key, value in {**RIGHT, **values}.items()))

    @property
    def asked(self) -> str:
        path = self.units / "asked"
        return path.read_text() if path.exists() else ""


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> System:
    made = System(tmp_path)
    monkeypatch.setenv("PATH", f"{made.units}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv(service.STARTED_BY_SYSTEMD, raising=False)
    return made


@pytest.fixture
def config(tmp_path: Path) -> SupervisorConfig:
    (tmp_path / "var").mkdir(mode=0o700)
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump({"supervisor": {"id": "TestHost"}, "workers": {"OrionMX": {"command": ["x"]}}}))
    return load_supervisor_config(path, environ={})


@pytest.fixture
def daemon(config: SupervisorConfig) -> Iterator[None]:
    """We are it, as far as its lock tells."""
    with FileLock(config.state_dir / DAEMON_LOCK, "the supervisor").acquire():
        yield


Examined = Callable[[], CheckResult]


@pytest.fixture
def examined(config: SupervisorConfig, system: System) -> Examined:
    return lambda: service.check_service(config, system.root)


@pytest.mark.usefixtures("daemon")
def test_a_unit_that_is_right_is_told_to_be(system: System, examined: Examined) -> None:
    system.lives_in(f"0::/system.slice/{DAEMON}\n")
    system.unit(DAEMON)
    check = examined()
    assert (check.ok, check.remedy) == (True, "")
    assert check.message == f"{DAEMON}: workers outlive the daemon, and the stop timeout is long enough"
    assert DAEMON in system.asked


@pytest.mark.parametrize(
    ("setting", "words", "remedy"),
    [
        ({"KillMode": "control-group"}, "KillMode=control-group: workers end with the daemon", "KillMode=process"),
        ({"OOMPolicy": "stop"}, "OOMPolicy=stop: an out-of-memory kill of a", "OOMPolicy=continue"),
        ({"TimeoutStopUSec": "1min 30s"}, "TimeoutStopSec=1min 30s: a stop may take", "TimeoutStopSec=6"),
    ],
)
@pytest.mark.usefixtures("daemon")
def test_what_would_end_workers_or_a_command_is_a_warning_that_fails_nothing(
    setting: dict[str, str], words: str, remedy: str, system: System, examined: Examined
) -> None:
    system.lives_in(f"0::/system.slice/{DAEMON}\n")
    system.unit(DAEMON, **setting)
    check = examined()
    assert check.ok
    assert words in check.message
    assert remedy in check.remedy
    assert f"systemctl edit {DAEMON}" in check.remedy
    shown = results_text([check])
    assert shown.startswith("! warning")
    assert shown.endswith("No check failed; 1 warning.")


def test_the_unit_of_the_passes_is_looked_at_where_there_is_one(system: System, examined: Examined) -> None:
    assert "not run by systemd" in examined().message
    system.unit(PASS, Type="oneshot", KillMode="control-group", WatchdogUSec="0")
    check = examined()
    assert f"{PASS} has KillMode=control-group" in check.message
    assert check.remedy


def test_a_worker_tells_which_unit_it_would_end_with(
    system: System, examined: Examined, config: SupervisorConfig
) -> None:
    me = identify(os.getpid())
    prepare_folder(config.state_dir)
    write_record(config.state_dir, WorkerRecord("OrionMX", "a" * 32, RUNNING, identity=me))
    system.lives_in("0::/system.slice/cron.service\n")
    system.unit("cron.service", KillMode="mixed")
    assert "cron.service has KillMode=mixed" in examined().message


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("#!/bin/sh\necho 'Failed to connect to bus' >&2; exit 1\n", "systemctl failed: Failed to connect"),
        ("#!/bin/sh\nexec sleep 60\n", "no response"),
        (None, "The program systemctl isn't installed"),
    ],
)
@pytest.mark.usefixtures("daemon")
def test_a_systemd_that_can_not_be_asked_fails_nothing(
    program: str | None, words: str, system: System, examined: Examined, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(units, "ASK_SECONDS", 0.5)
    system.lives_in(f"0::/system.slice/{DAEMON}\n")
    if program is None:
        (system.units / "systemctl").unlink()
        monkeypatch.setenv("PATH", str(system.units))
    else:
        system.program(program)
    check = examined()
    assert (check.ok, check.remedy) == (True, "")
    assert words in check.message


@pytest.mark.parametrize("sign", [".dockerenv", "run/.containerenv", "kubepods", None])
def test_in_a_container_it_is_said_that_workers_end_with_it(
    sign: str | None, system: System, examined: Examined
) -> None:
    (system.root / "run/systemd/system").rmdir()
    if sign == "kubepods":
        system.lives_in("0::/kubepods/burstable/pod1\n", 1)
    elif sign:
        (system.root / sign).write_text("")
    check = examined()
    assert (check.ok, system.asked) == (True, "")
    assert ("end with the container" in check.message) == (sign is not None)


# The units in the docs


def unit_in_docs(name: str) -> str:
    return (ROOT / "docs" / "units" / name).read_text()


@pytest.mark.parametrize("name", ["supervisor-chatops.service", "supervisor-chatops-pass@.service"])
def test_the_units_in_the_docs_pass_our_own_check(
    name: str, system: System, examined: Examined, config: SupervisorConfig
) -> None:
    settings = dict(re.findall(r"^(\w+)=(.*)$", unit_in_docs(name), re.MULTILINE))
    assert int(settings["TimeoutStopSec"]) >= STOP_LIMIT_SECONDS + service.BEYOND_SECONDS
    told = {key: settings[key] for key in ("Type", "KillMode", "OOMPolicy")}
    system.unit(PASS, **told, TimeoutStopUSec=f"{settings['TimeoutStopSec']}s")
    check = examined()
    assert (check.remedy, PASS in check.message) == ("", True)


@pytest.mark.parametrize("name", ["supervisor-chatops.service", "supervisor-chatops-pass@.service"])
def test_no_unit_gives_workers_what_ends_with_the_daemon(name: str) -> None:
    settings = {line.split("=")[0] for line in unit_in_docs(name).splitlines() if re.match(r"\w+=", line)}
    harmful = {"PrivateTmp", "RuntimeDirectory", "ProtectSystem", "ProtectHome", "DynamicUser", "MemoryMax", "UMask"}
    assert settings & harmful == set()
