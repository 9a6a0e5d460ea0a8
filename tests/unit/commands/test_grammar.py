"""The grammar: what people type, and the command or the mistake that it is."""

from __future__ import annotations

from typing import Any

import pytest

from supervisor_core.commands.catalog import CATALOG
from supervisor_core.commands.command import Command
from supervisor_core.commands.grammar import parse, render
from supervisor_core.commands.grammar_errors import GrammarError, NearMiss, NeedsTarget
from supervisor_core.commands.targets import GrammarContext
from supervisor_core.common.errors import UsageError

ONE = GrammarContext(("OrionMX",))
SEVERAL = GrammarContext(("OrionMX", "VegaMX", "w.local"), {"archive": ("VegaMX", "OrionMX")})
DEFAULT = GrammarContext(SEVERAL.workers, SEVERAL.teams, "OrionMX")
BOTH = ("OrionMX", "VegaMX")


def _command(name: str, target: str = "OrionMX", label: str | None = None, **params: Any) -> Command:
    workers = {
        "": (),
        "all": SEVERAL.workers,
        "team:archive": BOTH,
        "*MX": BOTH,
    }.get(target, (target,))
    return Command(name, target=target, workers=workers, params=params, label=label)


def _mistake(text: str, context: GrammarContext = DEFAULT) -> GrammarError:
    with pytest.raises(GrammarError) as caught:
        parse(text, context)
    return caught.value


GOOD = [
    ("", Command("overview")),
    ("  \n", Command("overview")),
    ("overview", Command("overview")),
    ("/supervisor", Command("overview")),
    ("<@UBOT>", Command("overview")),
    ("help", _command("help", "", topic=None)),
    ("help rollback", _command("help", "", topic="rollback")),
    ("help ROLLBACK_CODE", _command("help", "", topic="rollback")),
    ("help schedule add", _command("help", "", topic="schedule add")),
    ("? Schedule", _command("help", "", topic="schedule")),
    ("status", _command("status")),
    ("STATUS all", _command("status", "all")),
    ("/supervisor pause", _command("pause")),
    ("/SUPERVISOR pause", _command("pause")),
    ("<@UBOT> pause", _command("pause")),
    ("<@UBOT|bot with words> /supervisor pause", _command("pause")),
    ("pause_watcher VegaMX", _command("pause", "VegaMX")),
    ("pause team:archive disk is full", _command("pause", "team:archive", "disk is full")),
    ("restart *MX now", _command("restart", "*MX", "now")),
    ("restart\u00a0VegaMX\u00a0now", _command("restart", "VegaMX", "now")),
    ("restart <http://w.local|w.local> hangs", _command("restart", "w.local", "hangs")),
    ("restart hangs VegaMX", _command("restart", label="hangs VegaMX")),
    ('restart "VegaMX"', _command("restart", label="VegaMX")),
    ('restart "all" of it', _command("restart", label="all of it")),
    ('restart ""', _command("restart")),
    ('restart " two  spaces "', _command("restart", label="two  spaces")),
    ("restart 'one label'", _command("restart", label="one label")),
    ("restart 3 times", _command("restart", label="3 times")),
    ("restart OrionMX OrionMX", _command("restart", label="OrionMX")),
    ("restart all all", _command("restart", "all", "all")),
    ("rollback", _command("rollback", commits_back=1)),
    ("rollback 3 hotfix", _command("rollback", label="hotfix", commits_back=3)),
    ("rollback OrionMX 3 hotfix words", _command("rollback", label="hotfix words", commits_back=3)),
    ("rollback hotfix", _command("rollback", label="hotfix", commits_back=1)),
    ("rollback hotfix 3", _command("rollback", label="hotfix 3", commits_back=1)),
    ("rollback 3 4", _command("rollback", label="4", commits_back=3)),
    ('rollback "3" x', _command("rollback", label="3 x", commits_back=1)),
    ("rollback 10", _command("rollback", commits_back=10)),
    ("rollback +3", _command("rollback", commits_back=3)),
    ("rollback 03", _command("rollback", commits_back=3)),
    ("rollback - x", _command("rollback", label="- x", commits_back=1)),
    ("rollback_code VegaMX 2", _command("rollback", "VegaMX", commits_back=2)),
    ("update", _command("update", reset=False)),
    ("update --reset", _command("update", reset=True)),
    ("update --RESET VegaMX new parser", _command("update", "VegaMX", "new parser", reset=True)),
    ("update VegaMX —reset new", _command("update", "VegaMX", "new", reset=True)),
    ("update –reset", _command("update", reset=True)),  # noqa: RUF001 (what phones make of it)
    ("update new --reset", _command("update", label="new --reset", reset=False)),
    ('update "--reset"', _command("update", label="--reset", reset=False)),
    ("update_code_deps", _command("update-deps", reset=False)),
    ("restart all --keep-going", _command("restart", "all", keep_going=True)),
    ("restart --keep_going all hotfix", _command("restart", "all", "hotfix", keep_going=True)),
    ("pause —KEEP-GOING", _command("pause", keep_going=True)),
    ("rollback 3 --keep-going hotfix", _command("rollback", label="hotfix", commits_back=3, keep_going=True)),
    ("update --keep-going --reset", _command("update", reset=True, keep_going=True)),
    ('restart "--keep-going"', _command("restart", label="--keep-going")),
    ("update -x", _command("update", label="-x", reset=False)),
    ("undo", _command("undo", task_id=None)),
    ("undo task_1", _command("undo", task_id="task_1")),
    ("undo VegaMX task_1 wrong one", _command("undo", "VegaMX", "wrong one", task_id="task_1")),
    ("undo wrong task_1 one", _command("undo", label="wrong one", task_id="task_1")),
    ("undo task_1 task_2", _command("undo", label="task_2", task_id="task_1")),
    ('undo "task_1"', _command("undo", label="task_1", task_id=None)),
    ("undo task_", _command("undo", label="task_", task_id=None)),
    ("logs", _command("logs", lines=20)),
    ("logs 1000", _command("logs", lines=1000)),
    ("log VegaMX 5", _command("logs", "VegaMX", lines=5)),
    ("history", _command("history", span="24h")),
    ("history VegaMX 7D", _command("history", "VegaMX", span="7d")),
    ("history 7d", _command("history", span="7d")),
    ("audit", _command("audit", "", by=None, since=None, limit=20)),
    ("audit VegaMX", _command("audit", "VegaMX", by=None, since=None, limit=20)),
    ("audit 50 since 48h by @ann all", _command("audit", "all", by="ann", since="2d", limit=50)),
    ("audit by <@U012|Ann Lee>", _command("audit", "", by="U012", since=None, limit=20)),
    ("audit by <@U012> 5", _command("audit", "", by="U012", since=None, limit=5)),
    (
        'audit By "Ann Lee" team:archive',
        _command("audit", "team:archive", by="Ann Lee", since=None, limit=20),
    ),
    ('audit by "by"', _command("audit", "", by="by", since=None, limit=20)),
    ("audit by OrionMX", _command("audit", "", by="OrionMX", since=None, limit=20)),
    ("audit since 2026-01-31", _command("audit", "", by=None, since="2026-01-31", limit=20)),
    ("mute", _command("mute", seconds=3600, reason=None)),
    ("mute 2h", _command("mute", seconds=7200, reason=None)),
    ("mute all 1d12h it's being moved", _command("mute", "all", seconds=129600, reason="it's being moved")),
    ("mute flaky, <http://t.co/1|see #12> &amp; &lt;wait&gt;", None),
    ('mute "2h" left', _command("mute", seconds=3600, reason="2h left")),
    ('mute "say ""hi"""', _command("mute", seconds=3600, reason='say "hi"')),
    ("mute 2h 3h", _command("mute", seconds=7200, reason="3h")),
    ("mute 30m Straße 東京 🙂", _command("mute", seconds=1800, reason="Straße 東京 🙂")),
    ("mute " + "x" * 200, _command("mute", seconds=3600, reason="x" * 200)),
    ("unmute VegaMX all good", _command("unmute", "VegaMX", reason="all good")),
    ("monitoring pause", Command("monitoring pause")),
    ("Monitoring RESUME", Command("monitoring resume")),
    ("schedule list", Command("schedule list")),
    ("schedule remove nightly", Command("schedule remove", params={"name": "nightly"})),
    ('schedule remove "nightly"', Command("schedule remove", params={"name": "nightly"})),
    (
        'schedule add nightly "0  3 * * 1-5" rollback 3 hotfix',
        Command(
            "schedule add",
            params={"name": "nightly", "cron": "0 3 * * 1-5", "command": "rollback OrionMX 3 hotfix"},
        ),
    ),
    (
        'schedule add n “*/5 * * * MON” "mute all 1h it\'s late"',
        Command("schedule add", params={"name": "n", "cron": "*/5 * * * MON", "command": "mute all 1h it's late"}),
    ),
    (
        'schedule add n "* * * * *" /supervisor status',
        Command("schedule add", params={"name": "n", "cron": "* * * * *", "command": "status OrionMX"}),
    ),
    ("approvals", Command("approvals")),
    ("alerts", Command("alerts")),
    ("teams", Command("teams")),
]


@pytest.mark.parametrize(("text", "command"), GOOD)
def test_a_command_is_understood_and_its_canonical_text_means_the_same(text: str, command: Command | None) -> None:
    understood = parse(text, DEFAULT)
    if command is not None:
        assert understood == command
    assert parse(render(understood), DEFAULT) == understood


def test_a_reason_keeps_what_slack_wrapped_up() -> None:
    command = parse("mute flaky, <http://t.co/1|see #12> &amp; &lt;wait&gt; &amp;lt;", DEFAULT)
    assert command.params["reason"] == "flaky, see #12 & <wait> &lt;"
    assert parse(render(command), DEFAULT) == command


def test_a_parsed_command_has_no_issuer_and_no_id_yet() -> None:
    command = parse("pause", ONE)
    assert (command.issuer, command.task_id) == (None, "")


# What is wrong, what the message must mention, and the command that is suggested.
BAD = [
    ("rollback 3x", "whole number from 1 to 10", "rollback OrionMX 3"),
    ("rollback 0", "1 to 10", "rollback OrionMX 1"),
    ("rollback 11", "1 to 10", "rollback OrionMX 10"),
    ("rollback -1", "1 to 10", "rollback OrionMX 1"),
    ("rollback 2.5", "1 to 10", "rollback OrionMX 2"),
    ("rollback 3rd time", "double quotes", "rollback OrionMX 3 time"),
    ("rollback VegaMX 99 x", "1 to 10", "rollback VegaMX 10 x"),
    ("rollback " + "9" * 1900, "1 to 10", "rollback OrionMX 10"),
    ("rollback ٣", "1 to 10", None),
    ("logs 0", "1 to 1000", "logs OrionMX 1"),
    ("logs 1001", "1 to 1000", "logs OrionMX 1000"),
    ("logs 5 6", "too many|no target", "logs OrionMX 5"),
    ("logs VegaMX please", "too many", "logs VegaMX"),
    ("rolback 3", "rollback", "rollback OrionMX 3"),
    ("rolback orionmx 12 it's", "rollback", "rollback OrionMX 10 its"),
    ("stop VegaMX", "pause", "pause VegaMX"),
    ("frobnicate", "help", None),
    ("\u0000", "one line", None),
    ("VegaMX", "is a worker", "status VegaMX"),
    ("VegaMX restart now", "is a worker", "restart VegaMX now"),
    ('"restart" VegaMX', "not quoted", "restart VegaMX"),
    ('"restart VegaMX now"', "not quoted", "restart VegaMX now"),
    ("restart a\nb", "one line", "restart OrionMX a b"),
    ("restart\tVegaMX", "one line", "restart VegaMX"),
    ("restart Vega\u200bMX", "U\\+200B", "restart OrionMX Vega MX"),
    ('restart "hot fix', "not closed", "restart OrionMX hot fix"),
    ("restart “hot fix", "not closed", "restart OrionMX hot fix"),
    ("restart über", "'ü'", "restart OrionMX uber"),
    ("restart it's", '"\'"', "restart OrionMX its"),
    ("restart it’s", "label", "restart OrionMX its"),  # noqa: RUF001 (what phones make of it)
    ("restart x <#C1|ops>", "'#'", "restart OrionMX x ops"),
    ("restart x <@U1|ann>", "'@'", "restart OrionMX x ann"),
    ("restart !!!", "'!'", None),
    ("restart " + "x" * 101, "100", "restart OrionMX " + "x" * 100),
    ("restart team:archiv", "no team", "restart team:archive"),
    ("restart team:", "no team", None),
    ("restart orion*", "No worker matches", "restart Orion*"),
    ("restart vega?x", "No worker matches", "restart VegaMX"),
    ("restart zz*", "No worker matches", None),
    ("restart --force", "no option", "restart OrionMX"),
    ("restart --help", "no option", "help restart"),
    ("update --rest new", "--reset", "update OrionMX --reset new"),
    ("update --no-reset", "--reset", "update OrionMX"),
    ("restart --keepgoing all", "--keep-going", "restart all --keep-going"),
    ("restart --no-keep-going", "--keep-going", "restart OrionMX"),
    ("diagnostics --keep-going", "it has none", "diagnostics OrionMX"),
    ("status foo", "no target", None),
    ("logs Wset", "no target", None),
    ("audit csv", "no target", None),
    ("rollback HEAD~3", "'~' is none", None),
    ("rollback it's late", "is none", "rollback OrionMX its late"),
    ("status VegMX2", "no worker, but nearly", "status VegaMX"),
    ("status VegaMX please", "too many", "status VegaMX"),
    ('status "VegaMX"', "too many", None),
    ("why 3", "no target", None),
    ("teams all", "too many", "teams"),
    ("help rolback", "rolback", "help rollback"),
    ("help rollback 3", "rollback 3", "help rollback"),
    ("help me", "me", "help"),
    ("history 12h", "24h or 7d", "history OrionMX 24h"),
    ("history foo", "24h or 7d", None),
    ("history VegaMX foo", "24h or 7d", "history VegaMX 24h"),
    ("history 7d 7d", "too many|no target", "history OrionMX 7d"),
    ("audit by", "comes @user", "audit"),
    ("audit by since 2d", "comes @user", "audit since 2d"),
    ("audit since", "comes 2d", "audit"),
    ("audit since yesterday", "since must be .* 2026-01-31", None),
    ("audit 51", "1 to 50", "audit 50"),
    ("audit by ann by bob", "twice", "audit by ann"),
    ("audit foo", "no target", None),
    ("audit VegaMX OrionMX", "too many", "audit VegaMX"),
    ("mute 90", "no duration", "mute OrionMX 1h30m"),
    ("mute 2hours x", "no duration", "mute OrionMX 2h x"),
    ("mute 0m", "1m to 30d", "mute OrionMX 1m"),
    ("mute 31d", "1m to 30d", "mute OrionMX 30d"),
    ("mute VegaMX " + "x" * 201, "200", "mute VegaMX " + "x" * 200),
    ("monitoring", "pause or resume", None),
    ("monitoring puase", "pause or resume", "monitoring pause"),
    ("monitoring pause all", "too many", "monitoring pause"),
    ("schedule", "add, list or remove", "schedule list"),
    ("schedule ad n", "add, list or remove", None),
    ("schedule remove", "NAME", None),
    ("schedule remove a/b", "NAME", None),
    ("schedule add", "NAME", None),
    ("schedule add n", "CRON", None),
    ('schedule add n "* * * * *"', "COMMAND", None),
    ('schedule add n "* * * *" status', "five fields", None),
    ('schedule add n "* * * * ;" status', "isn't a valid weekday", None),
    (
        'schedule add n "dayly 03:00" restart',
        "isn't a known day",
        'schedule add n "0 3 * * *" restart OrionMX',
    ),
    ("schedule add n daily 03:00 restart", "double quotes", 'schedule add n "0 3 * * *" restart OrionMX'),
    ("schedule add n 0 3 * * * restart", "double quotes", 'schedule add n "0 3 * * *" restart OrionMX'),
    ('schedule add n "* * * * *" rolback 30', "rollback", 'schedule add n "* * * * *" rollback OrionMX 10'),
    ('schedule add n "* * * * *" "rolback 30"', "rollback", 'schedule add n "* * * * *" rollback OrionMX 10'),
    ('schedule add n "* * * * *" help', "can't be scheduled", None),
    ('schedule add n "* * * * *" schedule list', "can't be scheduled", None),
    ('schedule add n "* * * * *" undo', "can't be scheduled", None),
    ('schedule add n "* * * * *" ""', "needs a command", None),
    ('schedule add n "* * * * *" "status', "not closed", 'schedule add n "* * * * *" status OrionMX'),
    ("x" * 2001, "2,000", None),
]


@pytest.mark.parametrize(("text", "said", "suggestion"), BAD)
def test_a_mistake_says_what_was_expected_and_suggests_what_parses(
    text: str, said: str, suggestion: str | None
) -> None:
    error = _mistake(text)
    assert isinstance(error, UsageError)
    with pytest.raises(GrammarError, match=said):
        raise error
    assert error.suggestion == suggestion
    assert (suggestion or "") in str(error)
    if error.suggestion is not None:
        assert parse(render(parse(error.suggestion, DEFAULT)), DEFAULT) == parse(error.suggestion, DEFAULT)


def test_without_a_default_the_asker_chooses_the_worker() -> None:
    error = _mistake('rollback 3 "hot fix"', SEVERAL)
    assert isinstance(error, NeedsTarget)
    assert error.choices == SEVERAL.workers
    assert error.suggestion is None
    chosen = parse(error.complete("VegaMX"), SEVERAL)
    assert chosen == _command("rollback", "VegaMX", "hot fix", commits_back=3)


def test_what_only_informs_can_as_well_be_about_all() -> None:
    error = _mistake("status", SEVERAL)
    assert isinstance(error, NeedsTarget)
    assert error.suggestion == "status all"


def test_the_worker_inside_a_schedule_can_be_chosen_too() -> None:
    for text in ('schedule add n "0 3 * * *" restart now', 'schedule add n "0 3 * * *" "restart now"'):
        error = _mistake(text, SEVERAL)
        assert isinstance(error, NeedsTarget)
        assert render(parse(error.complete("VegaMX"), SEVERAL)) == 'schedule add n "0 3 * * *" restart VegaMX now'


def test_a_default_that_is_no_worker_is_no_default() -> None:
    assert isinstance(_mistake("restart", GrammarContext(("a", "b"), default_worker="gone")), NeedsTarget)


def test_without_any_worker_there_is_nothing_to_do() -> None:
    for text in ("restart", "restart all", "restart x*"):
        assert not isinstance(_mistake(text, GrammarContext(())), NeedsTarget)


@pytest.mark.parametrize(
    ("text", "names", "suggestion", "otherwise"),
    [
        ("restart orionmx", ("OrionMX",), "restart OrionMX", "restart OrionMX orionmx"),
        ("rollback vegaMX 3 x", ("VegaMX",), "rollback VegaMX 3 x", "rollback OrionMX vegaMX 3 x"),
        ("restart ALL", ("all",), "restart all", "restart OrionMX ALL"),
        ("restart Team:archive", ("team:archive",), "restart team:archive", "restart OrionMX Team archive"),
        ("status vega-mx", ("VegaMX",), "status VegaMX", None),
        ("mute Orion 2h", ("OrionMX",), "mute OrionMX 2h", "mute OrionMX Orion 2h"),
        ("audit by ann orionmx", ("OrionMX",), "audit OrionMX by ann", "audit by ann"),
        ("rollback 3 VegaMX", ("VegaMX",), "rollback VegaMX 3", "rollback OrionMX 3 VegaMX"),
        ("undo task_1 VegaMX x", ("VegaMX",), "undo VegaMX task_1 x", "undo OrionMX task_1 VegaMX x"),
        (
            'schedule add n "0 3 * * *" restart orionmx',
            ("OrionMX",),
            'schedule add n "0 3 * * *" restart OrionMX',
            'schedule add n "0 3 * * *" restart OrionMX orionmx',
        ),
    ],
)
def test_a_word_that_nearly_names_a_worker_is_asked_about(
    text: str, names: tuple[str, ...], suggestion: str, otherwise: str | None
) -> None:
    error = _mistake(text)
    assert isinstance(error, NearMiss)
    assert error.names == names
    assert error.suggestion == suggestion
    assert error.otherwise == otherwise


def test_a_worker_named_where_only_a_label_can_be_is_no_question_if_it_is_meant_anyway() -> None:
    assert parse("rollback 3 OrionMX", DEFAULT).label == "OrionMX"


def test_only_the_first_argument_is_compared_with_the_workers() -> None:
    assert parse("restart now orionmx", DEFAULT).label == "now orionmx"


def test_what_starts_like_a_number_is_one_even_beside_a_worker_of_nearly_that_name() -> None:
    context = GrammarContext(("w10", "w2"), default_worker="w2")
    assert parse("rollback 10", context).params["commits_back"] == 10
    assert parse("mute 10m", context).params["seconds"] == 600
    assert isinstance(_mistake("restart 10", context), NearMiss)


def test_a_worker_whose_name_begins_like_a_number_is_a_worker() -> None:
    context = GrammarContext(("10.0.0.5", "2d", "other"), default_worker="other")
    assert parse("rollback 10.0.0.5 2", context).target == "10.0.0.5"
    assert parse("mute 2d", context).target == "2d"
    assert parse("mute 2d 2d", context).params["seconds"] == 172800


def test_every_command_is_rendered_with_its_target() -> None:
    for definition in CATALOG.values():
        for example in definition.examples:
            command = parse(example, DEFAULT)
            assert command.target in render(command)
