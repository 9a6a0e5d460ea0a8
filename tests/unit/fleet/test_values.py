"""Values in answers arrive as they were, under the addresses of their workers."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from bot.views.text import without_ids
from supervisor_core.commands.command import Command, Issuer
from supervisor_core.commands.phrases import WorkerName
from supervisor_core.common.errors import CommandText, Identifier, Verbatim
from supervisor_core.diagnosis.why.model import Cause, Circumstance, Explanation, Finding, PastEvent
from supervisor_core.fleet.questions import PresenceMessage, dump_explanation, load_explanation, read_presence

NOW = datetime(2026, 11, 19, 12, tzinfo=UTC)


def test_an_explanation_names_the_worker_by_its_address() -> None:
    anna = Issuer("slack:T1/U1", "Anna")
    told = Explanation(
        "fetcher",
        NOW,
        fine=False,
        found=Finding(
            Cause.KILLED,
            (WorkerName("fetcher"), " was killed by ", anna, " at ", NOW, "; run ", CommandText("restart fetcher")),
            (Verbatim("kill -CONT 4711"), " or ", Identifier("task_1")),
            (Command.for_worker("restart", "fetcher", label="again"),),
            NOW - timedelta(minutes=2),
            (("fetcher was a word",),),
        ),
        conditions=(Circumstance("the drive is away", None),),
        before=(PastEvent(NOW, ("restarted by ", anna)),),
        lines=("one", "two"),
        log="/var/log/fetcher.log",
        unknown=("the disk",),
    )
    loaded = load_explanation("web-1", dump_explanation(told))
    assert loaded.worker_id == "web-1/fetcher"
    assert loaded.found.sentence[0] == WorkerName("web-1/fetcher")
    assert loaded.found.also == (("fetcher was a word",),)
    assert loaded.found.sentence[-1] == CommandText("restart web-1/fetcher")
    assert [type(part) for part in loaded.found.todo] == [Verbatim, str, Identifier]
    assert loaded.found.remedies == (Command.for_worker("restart", "web-1/fetcher", label="again"),)
    assert (loaded.conditions, loaded.before, loaded.lines) == (told.conditions, told.before, told.lines)


def test_an_id_anywhere_in_a_phrase_is_left_out_for_slack() -> None:
    event = ("rolled back by ", Issuer("slack:T1/U1", "Anna"), " (", Identifier("task_1"), "): 2 commits")
    assert without_ids(event) == (*event[:2], "", ": 2 commits")
    assert without_ids((Identifier("task_1"),)) == ()
    assert without_ids(("see ", Identifier("task_1"))) == ("see ",)


def test_presence_counts_only_on_the_subject_of_its_host() -> None:
    said = PresenceMessage("web-1", NOW, "ledger", {"jobs": 1, "audit": 2, "flips": 3}, 7, "life", "1.0")
    assert read_presence("web-1", said.encode()) == said
    assert read_presence("web-2", said.encode()) is None
    for claimed, every in ((30, 30), (0, 1), (1e9, 300)):  # nobody is quiet for a day, or floods the hub
        raw = said.encode().replace(b'"every":5.0', f'"every":{claimed}'.encode())
        assert read_presence("web-1", raw) == replace(said, every=every)
    for known, value in ((b'"audit":2', b"Infinity"), (b'"snapshot":7', b"Infinity"), (b'"every":5.0', b"1" * 400)):
        raw = said.encode().replace(known, known.partition(b":")[0] + b":" + value)
        assert read_presence("web-1", raw) is None
    assert read_presence("web-1", said.encode().replace(b'"audit":2,', b"")) is None
    for junk in (b"", b"[]", b"{}", b"\xff", b'{"host": "web-1", "position": 3}', b"[" * 100_000):
        assert read_presence("web-1", junk) is None
