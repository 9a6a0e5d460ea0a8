"""The doctor passes no file of secrets that others can read, and no clock that nobody compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.homes import Home, a_home


def check(home: Home, name: str) -> dict[str, Any]:
    return next(each for each in home.json("doctor")["checks"] if each["name"] == name)


def test_a_file_of_secrets_that_others_can_read_fails_with_the_remedy(tmp_path: Path) -> None:
    with a_home(tmp_path, workers={}) as home:
        assert check(home, "env_file")["ok"], "there is none"
        path = home.folder / ".env"
        path.write_text("PASSWORD=secret\n")
        for mode, ok, warned in ((0o644, False, True), (0o620, False, True), (0o640, True, True), (0o600, True, False)):
            path.chmod(mode)
            found = check(home, "env_file")
            assert (found["ok"], found["remedy"]) == (ok, f"Run: chmod 600 {path}" if warned else ""), oct(mode)
        path.chmod(0o644)
        assert home.supervisor("doctor").returncode == 1


@pytest.mark.parametrize(("enabled", "why"), [(False, "Slack is off"), (True, "needs valid Slack tokens")])
def test_without_slack_the_clock_is_checked_with_the_kernel(tmp_path: Path, *, enabled: bool, why: str) -> None:
    with a_home(tmp_path, workers={}, slack={"enabled": enabled}) as home:
        found = check(home, "clock")
        assert "synchronized with a time server" in found["message"]
        assert why in found["message"]
        assert ("timedatectl" in found["remedy"]) is found["message"].startswith("not synchronized")
        (line,) = (line for line in home.supervisor("doctor").stdout.splitlines() if " clock: " in line)
        assert line.startswith("! warning" if found["remedy"] else "✓ ok")


def test_a_daemon_that_is_not_running_is_a_warning(tmp_path: Path) -> None:
    with a_home(tmp_path, workers={}) as home:
        found = check(home, "daemon")
        assert "supervisor daemon start" in found["remedy"]
        (line,) = (line for line in home.supervisor("doctor").stdout.splitlines() if " daemon: " in line)
        assert line.startswith("! warning")
