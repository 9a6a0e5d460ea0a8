"""Runs one example as its own program against a playground of its own."""

from __future__ import annotations

import html
import os
import re
import shlex
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playground.tests.sdk_examples.catalog import Example
from slack_playground import Playground

REDIRECT = Path(__file__).parent / "redirect"
PATIENCE = 12.0  # seconds
MAPPED = ("3000", "8080")
PASSED, FAILED, NOT_RUN = "passed", "failed", "not run"


@dataclass(frozen=True)
class Result:
    """The result of one example."""

    example: Example
    result: str
    reason: str = ""


class Driver:
    """The playground of a scenario, with what only examples need."""

    def __init__(self, slack: Any, ports: dict[str, str]) -> None:
        self._slack, self.ports = slack, ports

    def __getattr__(self, name: str) -> Any:
        return getattr(self._slack, name)


def run(example: Example, root: Path, python: str) -> Result:
    """Run one example; `root` is its repository's checkout."""
    if example.scenario is None:
        return Result(example, NOT_RUN, example.reason)
    ports = {name: free_port() for name in MAPPED}
    url = "" if example.socket or example.is_script else f"http://127.0.0.1:{ports['3000']}{example.route}"
    with (
        Playground.in_thread(request_url=url, patience=PATIENCE) as slack,
        tempfile.TemporaryFile() as output,
        tempfile.TemporaryDirectory() as home,
    ):
        slack.channel("random")
        if example.is_script:  # nobody can leave #general, and a script leaves the first channel that it finds
            slack.channel("general").archive()
        slack.user("operator")
        with program(
            example,
            root,
            python,
            ports,
            dict(slack.oauth_environment if example.oauth else slack.environment) | {"HOME": home},
            output,
        ) as process:
            reason = _play(example, Driver(slack, ports), process)
        output.seek(0)
        reason = _complaint(output.read().decode(errors="replace")) or reason or _refusal(slack)
    if reason.startswith(("ImportError", "ModuleNotFoundError")):
        return Result(example, NOT_RUN, f"Its packages don't fit together here: {reason.partition(' (')[0]}.")
    return Result(example, FAILED if reason else PASSED, reason)


def _play(example: Example, slack: Any, process: subprocess.Popen[bytes]) -> str:
    """Play the scenario; the reason why it failed, if it did."""
    assert example.scenario is not None
    try:
        if example.is_script:
            code = process.wait(PATIENCE)
            return f"It ended with exit code {code}." if code else ""
        if example.oauth:
            install(slack)
        slack.connected()
        example.scenario(slack)
    except subprocess.TimeoutExpired:
        return f"It didn't end within {PATIENCE:g} s."
    except Exception as error:  # noqa: BLE001 -- whatever went wrong belongs into the table
        return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return f"It ended with exit code {process.returncode}." if process.poll() is not None else ""


def install(slack: Any) -> None:
    """Install the app as a person does: its own page, the one where the app is allowed, and the way back."""
    app = f"http://127.0.0.1:{slack.ports['3000']}"
    page, cookies = read_page(f"{app}/slack/install")
    ours = re.search(r'href="https://slack\.com/oauth/v2/authorize([^"]*)"', page)
    assert ours, f"the app's page has no link to Slack: {page[:100]!r}"
    allow, _ = read_page(slack.authorize_url + html.unescape(ours.group(1)))
    back = re.search(r'href="([^"]+)">Allow', allow)
    assert back, "the playground's page has no button"
    address = urlsplit(html.unescape(back.group(1)))
    done, _ = read_page(f"{app}{address.path}?{address.query}", cookies)
    assert "slack://" in done or "Thank" in done, f"the app isn't installed: {done[:200]!r}"


def read_page(address: str, cookies: str = "") -> tuple[str, str]:
    """A page and the cookies that it sets; waits until somebody serves it."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            with urllib.request.urlopen(urllib.request.Request(address, headers={"Cookie": cookies})) as answer:
                set_cookies = answer.headers.get_all("Set-Cookie") or []
                return answer.read().decode(), "; ".join(each.partition(";")[0] for each in set_cookies)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{address} answered {error.code}: {error.read()[:200]!r}") from error
        except urllib.error.URLError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


@contextmanager
def program(
    example: Example, root: Path, python: str, ports: dict[str, str], environment: dict[str, str], output: Any
) -> Iterator[subprocess.Popen[bytes]]:
    """The example's process, started in its own folder."""
    file = root / example.path
    words = shlex.split(example.start.format(file=file.name, module=file.stem, port=ports["3000"]))
    command: Sequence[str] = [python, *words[1:]]
    paths = [str(REDIRECT), str(file.parent)]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLACK_", "HTTP", "http"))}
    tokens = {"SLACK_API_TOKEN": "SLACK_BOT_TOKEN", "MY_TOKEN": "SLACK_BOT_TOKEN"}
    tokens |= {f"SLACK_SDK_TEST_SOCKET_MODE_{kind}_TOKEN": f"SLACK_{kind}_TOKEN" for kind in ("APP", "BOT")}
    given = environment | {name: environment[source] for name, source in tokens.items() if source in environment}
    if example.oauth:
        given |= {"SLACK_SCOPES": "app_mentions:read,channels:history,im:history,chat:write,commands"}
    given |= {"PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}
    given["EXAMPLE_PORTS"] = ",".join(f"{name}={port}" for name, port in ports.items())
    process = subprocess.Popen(
        command, cwd=file.parent, env=kept | given, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, 15)
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()


def _complaint(output: str) -> str:
    """The last line of a traceback in the program's output; errors while the program is ended don't count."""
    found = output.rpartition("Traceback (most recent call last)")[2] if "Traceback (most" in output else ""
    lines = [line for line in found.splitlines() if line and not line.startswith((" ", "\t"))]
    lines = [line for line in lines if line not in ("KeyboardInterrupt", ":", "SystemExit: 1")]
    last = next((line for line in lines if "Error" in line or "Exception" in line), "")
    return "" if last.startswith(("asyncio.exceptions.CancelledError", "ConnectionResetError")) else last


def _refusal(slack: Any) -> str:
    refused = [entry for entry in slack.journal("api") if not (entry["answer"] or {}).get("ok")]
    return f"{refused[0]['method']} answered {refused[0]['answer']}." if refused else ""


def free_port() -> str:
    """A port of this machine that nobody uses now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return str(listener.getsockname()[1])
