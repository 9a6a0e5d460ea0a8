"""A worker that prints without end fills no drive."""

from __future__ import annotations

from pathlib import Path

from tests.support.homes import a_home
from tests.support.waiting import wait_until


def test_the_daemon_begins_an_output_anew_that_has_grown_too_large(tmp_path: Path) -> None:
    with a_home(tmp_path / "home", logging={"max_bytes": 20_000, "backups": 2}) as home:
        output = home.nas / "05_LOGS" / "workers" / "OrionMX.log"
        output.parent.mkdir(parents=True)
        output.write_text("a line of an earlier life\n" * 2000)
        home.start_daemon()
        wait_until(lambda: output.with_name("OrionMX.log.1").exists(), 20, "the output was begun anew")
        wait_until(lambda: output.stat().st_size < 20_000, 20, "it is small again")
        assert home.worker("OrionMX")["pid"]
