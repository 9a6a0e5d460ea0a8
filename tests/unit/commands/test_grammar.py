"""The grammar: what people type, and the command or the mistake that it is."""

from __future__ import annotations

from typing import Any

import pytest

from supervisor_core.commands.catalog import CATALOG
from supervisor_core.commands.command import Command
from supervisor_core.commands.grammar import commit_word, parse, render
from supervisor_core.commands.grammar_errors import GrammarError, NearMiss, NeedsTarget
from supervisor_core.commands.targets import GrammarContext
from supervisor_core.common.errors import CommandText, as_in_shell

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
    ("status", _command("status", "all")),
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
    ("update –reset", _command("update", reset=True)),
    ("update new --reset", _command("update", label="new --reset", reset=False)),
    ('update "--reset"', _command("update", label="--reset", reset=False)),
    ("update_code_deps", _command("update-deps", reset=False)),
    ("restart all --keep-going", _command("restart", "all", keep_going=True)),
    ("restart --keep_going all hotfix", _command("restart", "all", "hotfix", keep_going=True)),
    ("restart —KEEP-GOING", _command("restart", keep_going=True)),
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
    ("logs", _command("logs", "all", lines=20)),
    ("logs 1000", _command("logs", "all", lines=1000)),
    ("log VegaMX 5", _command("logs", "VegaMX", lines=5)),
    ("history", _command("history", "all", span="24h")),
    ("history VegaMX 7D", _command("history", "VegaMX", span="7d")),
    ("history 7d", _command("history", "all", span="7d")),
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
        Command("schedule add", params={"name": "n", "cron": "* * * * *", "command": "status all"}),
    ),
    ("approvals", Command("approvals", params={"approval": None})),
    ("Approve", Command("approvals", params={"approval": None})),
    ("deny 3f2a", Command("approvals", params={"approval": "3f2a"})),
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


# What is wrong, and what the message must mention.
BAD = [
    *[(f"rollback {number}", "1 to 10") for number in ("0", "11", "-1", "2.5", "VegaMX 99 x", "9" * 1900, "٣", "3x")],
    *[(f"rollback {number}", "in digits, from 1 to 10, not") for number in ("two", "VegaMX Ten hotfix")],
    ("rollback 3rd time", "double quotes"),
    ("logs 1001", "1 to 1000"),
    ("logs 5 6", "isn't a target"),
    ("logs VegaMX please", "Unexpected"),
    ("frobnicate", "help"),
    ("\u0000", "U\\+0000"),
    ("VegaMX restart now", "is a worker. The command comes first"),
    ('"restart VegaMX now"', "isn't quoted"),
    ("restart a\nb", "a line break"),
    ("restart\tVegaMX", "a tab"),
    ("restart Vega\u200bMX", "U\\+200B"),
    ('restart "hot fix', "quote is missing"),
    ("restart “hot fix", "quote is missing"),
    ("restart über", "'ü'"),
    ("restart it's", '"\'"'),
    ("restart x <@U1|ann>", "'@'"),
    ("restart " + "x" * 101, "100"),
    ("pause VegaMX v1.2: fix -- see #4", "isn't allowed in a label.* or put any text after -- as a note"),
    ("restart team:", "no team"),
    ("restart zz*", "No worker matches"),
    ("restart --force", "no option"),
    ("update --no-reset", "--reset"),
    ("diagnostics --keep-going", "has no options"),
    ("status foo", "isn't a target"),
    ('status "VegaMX"', "Unexpected"),
    ("teams all", "Unexpected"),
    ("help me", "no command “me”"),
    ("history 12h", "24h or 7d"),
    ("history VegaMX foo", "24h or 7d"),
    ("audit by since 2d", "Add a value after “by”"),
    ("audit since tomorrow", "since must be .* 2026-01-31"),
    ("audit by ann by bob", "twice"),
    ("audit VegaMX OrionMX", "Unexpected"),
    ("mute 90", "isn't a duration"),
    ("mute 31d", "1m to 30d"),
    ("mute VegaMX " + "x" * 201, "200"),
    ("pause -- " + "x" * 501, "A note can have up to 500 characters; this one has 501"),
    ("status OrionMX -- why", "status takes no note"),
    ("monitoring", "pause or resume"),
    ("schedule ad n", "add, list or remove"),
    ("schedule remove", "NAME"),
    ("schedule remove a/b", "NAME"),
    ("schedule add n", "CRON"),
    ('schedule add n "* * * * *"', "COMMAND"),
    ('schedule add n "* * * *" status', "five fields"),
    ("schedule add n daily 03:00 restart", "double quotes"),
    ("schedule add n 0 3 * * * restart", "double quotes"),
    *[(f'schedule add n "* * * * *" {name}', "can't be scheduled") for name in ("help", "schedule list", "undo")],
    ('schedule add n "* * * * *" ""', "Add the command to run"),
    ("rollback 3 VegaMX", "is a worker, and the worker comes right after rollback"),
    ("undo task_1 VegaMX x", "is a worker, and the worker comes right after undo"),
    ("x" * 2001, "2,000"),
]


@pytest.mark.parametrize(("text", "said"), BAD)
def test_a_mistake_says_what_was_expected(text: str, said: str) -> None:
    with pytest.raises(GrammarError, match=said):
        raise _mistake(text)


@pytest.mark.parametrize(
    ("text", "suggestion"),
    [
        ("rolback 3", "rollback 3"),
        ("puase OrionMX  -- see #4", "pause OrionMX -- see #4"),
        ("stop VegaMX", "pause VegaMX"),
        ("monitoring puase", "monitoring pause"),
        ("help rolback", "help rollback"),
        ("restart team:archiv", "restart team:archive"),
        ("update --rest new", "update --reset new"),
        ("restart --keepgoing all", "restart --keep-going all"),
        ("status VegMX2", "status VegaMX"),
        ("restart orinmx", "restart OrionMX"),
        ('rollback vegMX 3 "x  y"', 'rollback VegaMX 3 "x  y"'),
        ("mute Orion 2h", "mute OrionMX 2h"),
        ("audit by ann orinmx", "audit by ann OrionMX"),
        ('schedule add n "0 3 * * *" restart orinmx', 'schedule add n "0 3 * * *" restart OrionMX'),
        ('schedule add n "0 3 * * *" rolback 30', 'schedule add n "0 3 * * *" rollback 30'),
        ("rollback 11", None),
        ("frobnicate", None),
    ],
)
def test_the_closest_command_worker_or_option_is_suggested_and_never_run(text: str, suggestion: str | None) -> None:
    error = _mistake(text)
    assert error.suggestion == suggestion
    assert not suggestion or as_in_shell(CommandText(suggestion)) in str(error)


def test_without_a_default_the_asker_chooses_the_worker() -> None:
    error = _mistake('rollback 3 "hot fix"', SEVERAL)
    assert isinstance(error, NeedsTarget)
    assert error.choices == SEVERAL.workers
    assert error.suggestion is None
    chosen = parse(error.complete("VegaMX"), SEVERAL)
    assert chosen == _command("rollback", "VegaMX", "hot fix", commits_back=3)


@pytest.mark.parametrize("name", ["status", "why", "logs", "history", "diagnostics"])
def test_a_command_that_only_reads_is_for_all_workers_without_a_target(name: str) -> None:
    for context in (SEVERAL, DEFAULT):
        command = parse(name, context)
        assert (command.target, command.workers) == ("all", SEVERAL.workers)
    assert parse(name, ONE).target == "OrionMX"


def test_a_host_has_one_database_whichever_workers_are_meant() -> None:
    for text in ("verify-db", "verify-db all"):
        command = parse(text, SEVERAL)
        assert (command.target, command.workers) == ("all", SEVERAL.workers[:1])
    assert parse("verify-db VegaMX", SEVERAL).workers == ("VegaMX",)


def test_the_audit_trail_is_that_of_the_whole_host_without_a_target() -> None:
    assert parse("audit", SEVERAL).workers == ()


@pytest.mark.parametrize(
    ("name", "question"),
    [
        ("restart", "Restart which worker?"),
        ("mute", "Mute which worker?"),
        ("rollback", "Roll back which worker?"),
        ("undo", "Undo the last change of which worker?"),
        ("update-deps", "Update which worker?"),
    ],
)
def test_a_command_that_changes_something_asks_for_its_worker(name: str, question: str) -> None:
    assert _mistake(name, SEVERAL).message == f"{question} Workers: OrionMX, VegaMX, w.local."


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("restart orionmx", "restart OrionMX"),
        ("RESTART ORIONMX hotfix", "restart OrionMX hotfix"),
        ("rollback vegaMX 3 x", "rollback VegaMX 3 x"),
        ("restart ALL", "restart all"),
        ("restart Team:Archive", "restart team:archive"),
        ("restart vega*", "restart vega*"),
        ("audit by ann orionmx", "audit OrionMX by ann 20"),
        ('schedule add n "0 3 * * *" restart orionmx', 'schedule add n "0 3 * * *" restart OrionMX'),
    ],
)
def test_commands_and_targets_match_in_any_case(text: str, canonical: str) -> None:
    assert render(parse(text, DEFAULT)) == canonical


def test_a_name_that_fits_several_workers_in_another_case_is_asked_about() -> None:
    context = GrammarContext(("North", "NORTH"))
    assert parse("restart North", context).workers == ("North",)
    assert isinstance(_mistake("restart north", context), NearMiss)


NOTE = "it's broken, see #4711"


@pytest.mark.parametrize(
    ("text", "command"),
    [
        (f"pause OrionMX hotfix -- {NOTE}", _command("pause", label="hotfix", note=NOTE)),
        (f"pause -- {NOTE}", _command("pause", note=NOTE)),
        ("rollback 3 \N{EM DASH} über 9000", _command("rollback", commits_back=3, note="über 9000")),
        ('restart -- "a -- b', _command("restart", note='"a -- b')),
        ("restart --\nfirst\n\tsecond", _command("restart", note="first  second")),
        (
            "restart -- \U0001f469\u200d\U0001f680 &lt;@U1&gt; <@U1|ann>",
            _command("restart", note="\U0001f469\u200d\U0001f680 <@U1> @ann"),
        ),
        ("restart -- now --keep-going", _command("restart", note="now --keep-going")),
        ("restart now --", _command("restart", label="now")),
        (f"mute 2h -- {NOTE}", _command("mute", seconds=7200, reason=NOTE)),
        ("mute 2h moving -- see #4", _command("mute", seconds=7200, reason="moving -- see #4")),
        (
            'schedule add n "0 3 * * *" restart VegaMX -- a (b)',
            Command("schedule add", params={"name": "n", "cron": "0 3 * * *", "command": "restart VegaMX -- a (b)"}),
        ),
    ],
)
def test_a_note_is_any_text_after_two_hyphens(text: str, command: Command) -> None:
    understood = parse(text, DEFAULT)
    assert understood == command
    assert parse(render(understood), DEFAULT) == understood


def test_a_quoted_separator_begins_no_note() -> None:
    assert parse('restart "now -- or never"', DEFAULT) == _command("restart", label="now -- or never")


@pytest.mark.parametrize("start", ["<@UBOT>: ", "<@UBOT>, ", "<@UBOT|supervisor>:", " <@UBOT>! ", "<@UBOT> : "])
def test_punctuation_after_the_mention_is_no_part_of_the_command(start: str) -> None:
    assert parse(f"{start}pause VegaMX", DEFAULT) == parse("pause VegaMX", DEFAULT)
    assert parse(start, DEFAULT) == Command("overview")


def test_the_worker_inside_a_schedule_can_be_chosen_too() -> None:
    for text in ('schedule add n "0 3 * * *" restart now', 'schedule add n "0 3 * * *" "restart now"'):
        error = _mistake(text, SEVERAL)
        assert isinstance(error, NeedsTarget)
        assert render(parse(error.complete("VegaMX"), SEVERAL)) == 'schedule add n "0 3 * * *" restart VegaMX now'


def test_a_word_in_the_place_of_the_worker_is_named_and_may_be_the_label() -> None:
    context = GrammarContext(("North", "South", "the-archive", "Orion"))
    error = _mistake("pause nosuch", context)
    assert isinstance(error, NeedsTarget)
    assert error.choices == context.workers
    assert parse(error.complete("North"), context) == parse("pause North nosuch", context)
    for text in ('pause "nosuch"', "pause", "rollback 3"):
        assert "There's no worker" not in _mistake(text, context).message
    many = GrammarContext(tuple(f"worker-{number}" for number in range(5000)))
    assert "There's no worker “nosuch”" in _mistake("pause nosuch", many).message
    label = _mistake("pause hotfix", context).message
    assert label == "There's no worker “hotfix”. Pause which worker? Workers: North, South, the-archive, Orion."


def test_a_default_that_is_no_worker_is_no_default() -> None:
    assert isinstance(_mistake("restart", GrammarContext(("a", "b"), default_worker="gone")), NeedsTarget)


def test_without_any_worker_there_is_nothing_to_do() -> None:
    for text in ("restart", "restart all", "restart x*"):
        assert not isinstance(_mistake(text, GrammarContext(())), NeedsTarget)


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


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("rollback OrionMX abc1234", "abc1234"),
        ("rollback OrionMX ABC1234 -- note 1", "ABC1234"),
        ("rollback OrionMX " + "a" * 40, "a" * 40),
        ("rollback OrionMX 1 abc1234", ""),
        ("rollback OrionMX 2 abc1234", ""),
        ('rollback OrionMX "abc1234"', ""),
        ("rollback OrionMX abc", ""),
        ("rollback OrionMX " + "a" * 41, ""),
        ("rollback OrionMX abc1234 hotfix", ""),
        ("rollback OrionMX hotfix", ""),
        ("pause OrionMX abc1234", ""),
    ],
)
def test_a_label_that_may_be_a_commit_is_one_word_of_a_rollback_without_a_number(text: str, word: str) -> None:
    command = parse(text, SEVERAL)
    assert commit_word(text, command) == word
    assert (command.label or "") in text, "the label stays legal"
