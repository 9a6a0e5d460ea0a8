"""The committed figures in `docs/reference/benchmarks.json`, and the page that is generated from them."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from tests.benchmarks.rows import MARGIN, Row, ratio
from tests.reference.markdown import code, fill, table

RESULTS = Path(__file__).parents[2] / "docs" / "reference" / "benchmarks.json"
PAGE = RESULTS.with_suffix(".md")


@dataclass(frozen=True)
class Topic:
    """A benchmark: the module `bench_NAME` measures it."""

    title: str
    about: str
    peers: Sequence[str] = ()
    """Distributions or programs that it runs beside ours."""


TOPICS: Mapping[str, Topic] = {
    "status": Topic(
        "Status",
        "`supervisor status` beside a Python that does nothing. Goal: 5 times the floor. Without a daemon,"
        " `status` checks the configuration and the workers itself.",
    ),
    "pass": Topic(
        "A pass with nothing to do",
        "`supervisor once` beside a healthy worker. The floor imports the same libraries. Goal: 1.4 times the floor.",
        ("psutil", "pydantic", "SQLAlchemy"),
    ),
    "send": Topic(
        "Stopping and starting a worker from the shell",
        "Until the program has returned, each once in turns. `--wait` waits for the outcome, with everything stored."
        " supervisord calls a worker started after its `startsecs` of 1 s, its default; ours after 0.1 s, as set here.",
        ("supervisor",),
    ),
    "ack": Topic(
        "Acknowledging a slash command",
        "Beside bare Bolt apps: 200 `help` one after the other, then 500 commands at once while 50 run. A command"
        " that isn't acknowledged within Slack's three seconds is lost, and counts as 3,000 ms.",
        ("slack_bolt", "aiohttp"),
    ),
    "card": Topic(
        "Answering a slash command with a message",
        "Beside bare Bolt apps that post a message and do nothing else. Ours has verified the person's rights with"
        " Slack and stored the job. Goal: 1.5 times bare Bolt.",
        ("slack_bolt", "aiohttp"),
    ),
    "audit": Topic(
        "Searching the audit trail",
        "10,000,000 rows. The peer reads the rows of the same page with SQL written by hand for each search, through"
        " SQLite's own driver; ours also checks each row's hash. Goal: 1.2 times the peer where the database is most of"
        " it, and a second.",
    ),
    "flags": Topic(
        "Flags at once",
        "Each is stored, run, audited and answered with a file of its own. The floor stores the answers alone, with the"
        " fewest syncs that make a file and its name durable: one for each file, and one for their folder. Goal: twice"
        " the floor.",
    ),
    "fleet": Topic(
        "A command to many hosts",
        "10, 100 and 1,000 light hosts in one process, with the real protocol and server. The floor sends the same"
        " hosts as many bare messages, which they only acknowledge. Goal: twice the floor.",
        ("nats-server",),
    ),
    "death": Topic(
        "Restarting a killed worker",
        "From `kill -9` of a worker to the first output of the next one.",
        ("supervisor",),
    ),
    "many": Topic(
        "One worker and many",
        "Workers that sleep. Bare Python starts and signals processes and does nothing else.",
        ("supervisor",),
    ),
    "idle": Topic(
        "An idle daemon",
        "Beside workers that sleep. The bare Python waits for a signal. Goal for the memory with one worker: 24 MiB.",
        ("supervisor",),
    ),
}


@dataclass(frozen=True)
class Run:
    """The rows of one topic, with the machine and versions that they were measured on."""

    date: str
    machine: str
    seconds: int = 0
    """The duration of the run; 0 where it wasn't recorded."""

    peers: Mapping[str, str] = field(default_factory=dict)
    rows: Sequence[Row] = ()


def run_of(topic: Topic, rows: Sequence[Row], seconds: float) -> Run:
    """These rows, measured here and now."""
    machine = f"{os.cpu_count()} CPUs, {platform.system()} {platform.release()}, Python {platform.python_version()}"
    versions = {name: _version(name) for name in topic.peers}
    return Run(f"{datetime.now(UTC):%Y-%m-%d}", machine, round(seconds), versions, rows)


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        program = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        return "unknown"
    said = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
    return next(iter(re.findall(r"\d+\.\d+[\w.]*", said)), "unknown")


def load() -> dict[str, Run]:
    """The runs by topic."""
    runs = json.loads(RESULTS.read_text(encoding="utf-8"))
    return {name: Run(**{**run, "rows": [Row(**row) for row in run["rows"]]}) for name, run in runs.items()}


def save(measured: Mapping[str, Run]) -> None:
    """Replace the runs of these topics; the others stay."""
    runs = {**load(), **measured}
    document = {name: _as_json(runs[name]) for name in TOPICS if name in runs}
    RESULTS.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8", newline="\n")


def _as_json(run: Run) -> dict[str, object]:
    rows = [
        {name: _rounded(value) for name, value in asdict(row).items() if value not in (None, "")} for row in run.rows
    ]
    return {**asdict(run), "rows": rows}


def _rounded(value: object) -> object:
    return float(f"{value:.4g}") if isinstance(value, float) else value


def page() -> str:
    """The text of `docs/reference/benchmarks.md`."""
    runs = load()
    overview = [
        (
            f"[{topic.title}](#{topic.title.lower().replace(' ', '-')})",
            code(f"make bench ARGS={name}"),
            f"{runs[name].seconds} s" if runs[name].seconds else "",
            runs[name].date,
            runs[name].machine,
            ", ".join(f"{peer} {version}" for peer, version in runs[name].peers.items()),
        )
        for name, topic in TOPICS.items()
        if name in runs
    ]
    topics = [
        f"## {topic.title}\n\n{topic.about}\n\n{_table(runs[name].rows)}"
        for name, topic in TOPICS.items()
        if name in runs
    ]
    heads = ("topic", "command", "takes", "measured", "machine", "versions")
    return fill("benchmarks.md", {"runs": table(heads, overview), "topics": "\n\n".join(topics), "margin": str(MARGIN)})


def _table(rows: Sequence[Row]) -> str:
    heads = ("measured", "subject", "median", "p95", "ratio", "compared with")
    return table(heads, (_cells(row, ratio(row, rows)) for row in rows))


def _cells(row: Row, compared: float | None) -> tuple[str, ...]:
    values = [f"{_number(each)} {row.unit}".strip() if each is not None else "" for each in (row.median, row.p95)]
    compares = ("", "") if compared is None else (_number(compared), row.against)
    return row.what, row.subject, values[0], values[1], *compares


def _number(value: float) -> str:
    """`1,005`, `32.6`, `0.06`; a count is an integer."""
    if isinstance(value, int) or value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 1 else f"{value:.2g}" if value >= 0.001 or not value else "<0.001"
