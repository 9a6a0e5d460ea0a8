"""Targets across hosts: addresses, short names, `host:NAME`, patterns over addresses, and conditions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from supervisor_core.commands.addresses import hosts_of
from supervisor_core.commands.conditions import HEALTHS, STATES, facts_of, in_one_word
from supervisor_core.commands.grammar import parse, render
from supervisor_core.commands.grammar_errors import GrammarError, NearMiss
from supervisor_core.commands.targets import GrammarContext
from supervisor_core.workers.health import Health, WorkerState

WORKERS = ("local", "vega", "fetcher", "web-1/fetcher", "web-1/mailer", "web-2/fetcher", "web-2/indexer", "db-1/3")
FACTS: Mapping[str, Mapping[str, str]] = {
    "vega": {"state": "running", "version": "3F2AFF", "health": "healthy"},
    "local": {"state": "backing off", "version": "", "health": "missing"},
    "web-1/mailer": {"state": "stale", "version": "3f2abc", "health": "stale"},
    "web-2/indexer": {"state": "running", "version": "77aa", "health": "healthy"},
}
FLEET = GrammarContext(
    WORKERS,
    {"archive": ("vega", "web-1/mailer", "web-2/indexer"), "empty": ()},
    "vega",
    {**hosts_of(WORKERS, "hub"), "idle": ()},
    FACTS,
)


AS_TEXT = "If it's meant as text, put it in double quotes."


def _read(text: str, context: GrammarContext = FLEET) -> tuple[str, tuple[str, ...]]:
    command = parse(text, context)
    assert parse(render(command), context) == command
    return command.target, command.workers


def _mistake(text: str, context: GrammarContext = FLEET) -> GrammarError:
    with pytest.raises(GrammarError) as caught:
        parse(text, context)
    return caught.value


@pytest.mark.parametrize(
    ("typed", "target", "workers"),
    [
        ("web-1/fetcher", "web-1/fetcher", ("web-1/fetcher",)),
        ("WEB-1/Fetcher", "web-1/fetcher", ("web-1/fetcher",)),
        ("mailer", "web-1/mailer", ("web-1/mailer",)),
        ("MAILER", "web-1/mailer", ("web-1/mailer",)),
        ("fetcher", "fetcher", ("fetcher",)),
        ("hub/fetcher", "fetcher", ("fetcher",)),
        ("HOST:WEB-1", "host:web-1", ("web-1/fetcher", "web-1/mailer")),
        ("host:hub", "host:hub", ("local", "vega", "fetcher")),
        ("*/fetcher", "*/fetcher", ("fetcher", "web-1/fetcher", "web-2/fetcher")),
        ("web-*/F*", "web-*/F*", ("web-1/fetcher", "web-2/fetcher")),
        ("f*", "f*", ("fetcher", "web-1/fetcher", "web-2/fetcher")),
        ("team:archive", "team:archive", ("vega", "web-1/mailer", "web-2/indexer")),
        ("all", "all", WORKERS),
    ],
)
def test_a_target_means_workers_on_all_hosts(typed: str, target: str, workers: tuple[str, ...]) -> None:
    assert _read(f"restart {typed} hotfix") == (target, workers)


def test_a_name_on_several_hosts_is_asked_about_with_its_addresses() -> None:
    other = GrammarContext(WORKERS[3:], hosts=hosts_of(WORKERS[3:], "hub"))
    error = _mistake("restart Fetcher", other)
    assert isinstance(error, NearMiss)
    assert error.message == (
        "Several hosts have a worker “Fetcher”: web-1/fetcher, web-2/fetcher. Name one, or use */Fetcher for all."
    )


def test_a_short_name_is_never_taken_for_a_number() -> None:
    assert _read("rollback 3") == ("vega", ("vega",))
    assert _read("rollback db-1/3") == ("db-1/3", ("db-1/3",))


@pytest.mark.parametrize(
    ("typed", "message", "suggestion"),
    [
        ("host:web-9", "There's no host “web-9”. Hosts: hub, web-1, web-2, db-1, idle.", "restart host:web-2"),
        ("host:ü", "There's no host “ü”. Hosts: hub, web-1, web-2, db-1, idle.", None),
        ("host:idle", "Host “idle” has no workers.", None),
        ("team:empty", "Team “empty” has no workers.", None),
        (
            "web-1/fetchr",
            "Host “web-1” has no worker “fetchr”. Its workers: fetcher, mailer.",
            "restart web-1/fetcher",
        ),
        ("idle/x", "Host “idle” has no worker “x”. It has no workers.", None),
        (
            "wbe-1/mailer",
            f"There's no worker “wbe-1/mailer”; the closest is “web-1/mailer”. {AS_TEXT}",
            "restart web-1/mailer",
        ),
        (
            "indexr",
            "There's no worker “indexr”; the closest is “indexer”. If it's meant as text, put it in double quotes.",
            "restart indexer",
        ),
        ("db-*/f*", "No worker matches “db-*/f*”. If it's meant as text, put it in double quotes.", None),
    ],
)
def test_a_target_that_means_nobody_is_an_error_with_the_nearest(
    typed: str, message: str, suggestion: str | None
) -> None:
    error = _mistake(f"restart {typed}")
    assert (error.message, error.suggestion) == (message, suggestion)


def test_a_misplaced_name_of_another_host_is_refused() -> None:
    assert "the worker comes right after rollback" in _mistake("rollback 3 mailer").message
    assert "The command comes first" in _mistake("mailer restart").message


@pytest.mark.parametrize(
    ("typed", "target", "workers"),
    [
        ("where state=stale", "where:state=stale", ("web-1/mailer",)),
        ("WHERE State=STALE", "where:state=stale", ("web-1/mailer",)),
        ("where version=3F2A", "where:version=3f2a", ("vega", "web-1/mailer")),
        ("where version=3f2a state=running", "where:version=3f2a,state=running", ("vega",)),
        ("where version=3f2a and state=running", "where:version=3f2a,state=running", ("vega",)),
        ("where version=3f2a, state=running", "where:version=3f2a,state=running", ("vega",)),
        ("where state=stale state=stale", "where:state=stale", ("web-1/mailer",)),
        ("where state=backing_off", "where:state=backing-off", ("local",)),
        ("where health=missing", "where:health=missing", ("local",)),
        ("all where state=stale", "where:state=stale", ("web-1/mailer",)),
        ("team:ARCHIVE where state=running", "team:archive,where:state=running", ("vega", "web-2/indexer")),
        ("host:web-1 where state=stale", "host:web-1,where:state=stale", ("web-1/mailer",)),
        ("web-*/* where state=running", "web-*/*,where:state=running", ("web-2/indexer",)),
        ("mailer where state=stale", "web-1/mailer,where:state=stale", ("web-1/mailer",)),
        ("team:archive,where:state=stale", "team:archive,where:state=stale", ("web-1/mailer",)),
        ("team:archive where:state=stale", "team:archive,where:state=stale", ("web-1/mailer",)),
        ("Where:state=stale,version=3f2a", "where:state=stale,version=3f2a", ("web-1/mailer",)),
    ],
)
def test_conditions_narrow_a_target_and_become_one_word(typed: str, target: str, workers: tuple[str, ...]) -> None:
    assert _read(f"restart {typed}") == (target, workers)
    assert _read(f"rollback {typed} 2 hotfix -- where else") == (target, workers)


EVERY_STATE = (
    "Use running, stopped, paused, down, starting, stopping, stuck, backing-off, quarantined, stale, degraded, "
    "missing, unknown or frozen."
)
ADD_ONE = (
    "Add a condition after “where”, such as state=stale or version=3f2a. "
    "If it's meant as text, put it in double quotes."
)


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("where state=frozen", "No worker matches state=frozen."),
        (
            "team:archive where state=frozen version=3f2a",
            "No worker of “team:archive” matches state=frozen and version=3f2a.",
        ),
        ("where state=stal", f"There's no state “stal”. {EVERY_STATE}"),
        ("where state=🙂", f"There's no state “🙂”. {EVERY_STATE}"),
        (
            "all where stat=stale",
            "There's no condition “stat=stale”. Use state=, version= or health=.",
        ),
        ("where größe=1", "There's no condition “größe=1”. Use state=, version= or health=."),
        (
            "where version=3f2",
            "“3f2” isn't a version. Use at least 4 digits of a commit, such as version=3f2a.",
        ),
        (
            "where version=main",
            "“main” isn't a version. Use at least 4 digits of a commit, such as version=3f2a.",
        ),
        (
            "team:archiv where state=stale",
            "There's no team “archiv”. Teams: archive, empty.",
        ),
        ("where", ADD_ONE),
        ("where:", ADD_ONE),
        ("all where", ADD_ONE),
        ("all where stale", ADD_ONE),
        ("where Frozen", ADD_ONE),
        ("where state = stale", ADD_ONE),
        ("where:state=stale,where:state=stale", "“where” appears twice. Put a comma between conditions."),
    ],
)
def test_a_wrong_condition_is_an_error_that_names_the_valid_ones(typed: str, message: str) -> None:
    error = _mistake(f"restart {typed}")
    assert (error.message, error.suggestion) == (message, None), "a suggestion could lose the conditions"


@pytest.mark.parametrize("text", ["rollback 2 where state=stale", "mute 2h where state=stale", "mute vega where: x=1"])
def test_conditions_in_another_place_are_never_a_label_or_a_reason(text: str) -> None:
    assert isinstance(_mistake(text), GrammarError)


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("restart all where the disk is", "where the disk is"),
        ('restart vega "where state"', "where state"),
        ('restart "where"', "where"),
    ],
)
def test_where_in_a_label_stays_text(text: str, label: str) -> None:
    command = parse(text, FLEET)
    assert command.label == label
    assert parse(render(command), FLEET) == command


def test_a_worker_named_where_is_a_worker() -> None:
    context = GrammarContext(("where", "b"), hosts={"hub": ("where", "b")}, facts={"where": {"state": "stale"}})
    assert _read("restart where", context) == ("where", ("where",))
    assert _read("restart where where state=stale", context) == ("where,where:state=stale", ("where",))


def test_conditions_without_facts_are_refused() -> None:
    context = replace(FLEET, facts=None)
    assert _mistake("restart where state=stale", context).message == (
        "The states of the workers aren't known here, so a target can't have “where”."
    )


def test_a_scheduled_command_has_conditions_that_nobody_meets_yet() -> None:
    command = parse(
        'schedule add nightly "0 3 * * *" restart host:web-1 where state=frozen', replace(FLEET, facts=None)
    )
    assert command.params["command"] == "restart host:web-1,where:state=frozen"
    inner = parse(command.params["command"], replace(FLEET, facts=None).later)
    assert inner.workers == ("web-1/fetcher", "web-1/mailer")


def test_the_states_of_conditions_are_those_that_status_shows() -> None:
    assert set(HEALTHS) == set(map(str, Health))
    shown = {
        facts_of([{"id": "w", "state": str(state), "health": str(health), "fine": fine, "paused": paused}])["w"][
            "state"
        ]
        for state in WorkerState
        for health in Health
        for fine in (True, False)
        for paused in (True, False)
    }
    assert {in_one_word(word) for word in shown} <= set(STATES)
    assert set(STATES) - {in_one_word(word) for word in shown} == {"unknown"}
