"""Finding, reading and parsing the file; variables; and what `status` asks of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from supervisor_core.common.errors import ConfigError
from supervisor_core.config.raw import MAX_BYTES, RawConfig, find_config, read_raw, state_dir_of
from tests.support.programs.unprivileged import as_nobody


def read(folder: Path, text: str, **environ: str) -> RawConfig:
    """What a file with this text means."""
    file = folder / "config.yaml"
    file.write_text(text, encoding="utf-8")
    return read_raw(file, environ)


def refusal(folder: Path, text: str) -> str:
    """Why a file with this text can't be read, without the folder's name."""
    with pytest.raises(ConfigError) as caught:
        read(folder, text)
    return str(caught.value).replace(f"{folder}{os.sep}", "")


class TestFinding:
    """Which file is read."""

    def test_the_one_given_comes_first_then_the_variable_then_the_folder(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "config.dev.yaml").touch()
        assert find_config(None, {}) == "config.dev.yaml"
        (tmp_path / "config.yaml").touch()
        assert find_config(None, {}) == "config.yaml"
        assert find_config(None, {"SUPERVISOR_CONFIG": "b.yaml"}) == "b.yaml"
        assert find_config("a.yaml", {"SUPERVISOR_CONFIG": "b.yaml"}) == "a.yaml"

    def test_without_any_the_error_names_all_that_was_looked_for(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        with pytest.raises(ConfigError) as caught:
            find_config(None, {"SUPERVISOR_CONFIG": ""})
        for sought in ("--config", "SUPERVISOR_CONFIG", "config.yaml", "config.dev.yaml", str(tmp_path)):
            assert sought in str(caught.value)


class TestReading:
    """Every way in which a file can be no configuration has its own sentence."""

    @pytest.mark.parametrize(
        ("text", "sentence"),
        [
            ("", "The configuration file config.yaml is empty."),
            ("  \n\n", "The configuration file config.yaml is empty."),
            ("# nothing\n", "The configuration file config.yaml has no settings."),
            ("~", "The configuration file config.yaml has no settings."),
            ("- a\n", "config.yaml line 1: the configuration must consist of `key: value` lines"),
            ("text", "config.yaml line 1: the configuration must consist of `key: value` lines"),
            ("a: 1\nb: c: d\n", "config.yaml line 2, column 5: not valid YAML: unexpected colon; put text"),
            ("a: [1, 2\nb: 3\n", "config.yaml line 2, column 2: not valid YAML: a bracket or brace"),
            ("a: {b: ${X}}\n", "inside { } and [ ], put ${VARIABLE} in quotes"),
            ("a:\n\tb: 1\n", "config.yaml line 2, column 1: not valid YAML: a value"),
            ("a: 'x\n", "config.yaml line 2, column 1: not valid YAML: a quote isn't closed"),
            ("a: 1\nb: x\x00y\n", "config.yaml line 2: a character isn't allowed in YAML"),
            ("a: 1\n---\nb: 1\n", "config.yaml line 2, column 1: not valid YAML: a second YAML document starts here;"),
            ("a: !!python/object:os.system x\n", "config.yaml line 1: a has a tag (`!…`); tags aren't allowed"),
            ("a: !secret {b: c}\n", "config.yaml line 1: a has a tag (`!…`); tags aren't allowed"),
            ("? [a]\n: 1\n", "config.yaml line 1: a key is a list, is a mapping or has a tag;"),
            ("a: &x [*x]\n", "config.yaml line 1: a[0] refers to itself"),
            ("a: *x\n", "config.yaml line 1, column 4: not valid YAML: this alias (*) has no anchor (&) above"),
            ("a: {<<: 3}\n", "config.yaml line 1: a merges (<<) something that isn't a mapping"),
            ("a: " + "[" * 40 + "]" * 40, "config.yaml line 1: the nesting is deeper than 32 levels"),
        ],
    )
    def test_what_is_no_configuration_is_said_plainly(self, tmp_path: Path, text: str, sentence: str) -> None:
        assert sentence in refusal(tmp_path, text)

    def test_a_missing_file_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match=r"The configuration file .*nowhere\.yaml doesn't exist\."):
            read_raw(tmp_path / "nowhere.yaml", {})

    def test_a_file_that_may_not_be_read_is_said_to_be_one(self, tmp_path: Path) -> None:
        file = tmp_path / "config.yaml"
        file.write_text("environment: development")
        file.chmod(0)
        with as_nobody(), pytest.raises(ConfigError, match=r"can't be read by this user\."):
            read_raw(file, {})

    def test_what_is_not_utf8_is_named_with_its_line(self, tmp_path: Path) -> None:
        (tmp_path / "config.yaml").write_bytes(b"a: 1\nb: caf\xe9\n")
        with pytest.raises(ConfigError, match=r"isn't UTF\-8 text \(line 2\)\. Save"):
            read_raw(tmp_path / "config.yaml", {})

    def test_a_file_beyond_the_bound_is_not_parsed(self, tmp_path: Path) -> None:
        assert "is larger than 1,000,000 bytes" in refusal(tmp_path, "a: 1\n" + "#" * MAX_BYTES)

    def test_a_bomb_of_references_is_refused_before_it_goes_off(self, tmp_path: Path) -> None:
        lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
        lines += [f"a{n}: &a{n} [" + ", ".join([f"*a{n - 1}"] * 10) + "]" for n in range(1, 12)]
        assert "has more than 50000 values" in refusal(tmp_path, "\n".join(lines))

    def test_no_message_repeats_what_may_be_a_secret(self, tmp_path: Path) -> None:
        for text in ("secret: *hunter2\n", "secret: hunter2: x\n", 'secret: "hunter2\\q"\n', "s: [hunter2"):
            assert "hunter2" not in refusal(tmp_path, text)


class TestDocument:
    """What a document means."""

    @pytest.mark.parametrize(
        ("written", "meant"),
        [
            ("30", 30),
            ("-1_000", -1000),
            ("0.5", 0.5),
            ("1e3", 1000.0),
            ("true", True),
            ("No", False),
            ("~", None),
            ("", None),
            ("0640", "0640"),
            ("22:00", "22:00"),
            ("2026-01-31", "2026-01-31"),
            ("0x10", "0x10"),
            (".inf", ".inf"),
            ("tRue", "tRue"),
            ("9" * 5000, "9" * 5000),
            ("'30'", "30"),
            ('"true"', "true"),
        ],
    )
    def test_only_what_everybody_reads_as_a_number_or_truth_value_is_one(
        self, tmp_path: Path, written: str, meant: object
    ) -> None:
        value = read(tmp_path, f"a: {written}\n").data["a"]
        assert value == meant
        assert isinstance(value, type(meant))

    def test_references_and_merges_are_followed(self, tmp_path: Path) -> None:
        raw = read(tmp_path, "a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}\nc: {<<: [{y: 9}, *a]}\nd: *a\n")
        assert raw.data["b"] == {"x": 1, "y": 3}
        assert raw.data["c"] == {"x": 1, "y": 9}
        assert raw.data["d"] == {"x": 1, "y": 2}

    def test_a_key_that_is_there_twice_is_a_problem_with_both_lines(self, tmp_path: Path) -> None:
        raw = read(tmp_path, "a:\n  b: 1\n  c: 2\n  b: 3\n")
        assert raw.problems == [(4, ("a", "b"), "is set twice; the first is on line 2")]
        assert raw.data == {"a": {"b": 1, "c": 2}}


class TestVariables:
    """`${VAR}` and the file of variables."""

    @pytest.mark.parametrize(
        ("written", "meant"),
        [
            ("${A}", "one"),
            ("x${A}y${A}", "xoneyone"),
            ("${B:two}", "two"),
            ("${B:}", ""),
            ("${A:two}", "one"),
            ("${EMPTY:two}", ""),
            ("${B:mysql://u:p@h/d?x=$y}", "mysql://u:p@h/d?x=$y"),
            ("${B:-x}", "-x"),
            ("$$", "$"),
            ("$${A}", "${A}"),
            ("$A 5$", "$A 5$"),
            ("${NESTED}", "${A}"),
        ],
    )
    def test_they_are_replaced_once(self, tmp_path: Path, written: str, meant: str) -> None:
        raw = read(tmp_path, f"a: '{written}'\n", A="one", EMPTY="", NESTED="${A}")
        assert raw.data["a"] == meant
        assert not raw.problems

    def test_one_that_is_not_set_is_a_problem_that_names_it(self, tmp_path: Path) -> None:
        raw = read(tmp_path, "a: 1\nb: {c: '${NOWHERE}'}\n")
        (line, path, text), *others = raw.problems
        assert (line, path, others) == (2, ("b", "c"), [])
        assert text == "needs the environment variable NOWHERE, which isn't set; set it, or write ${NOWHERE:default}"

    @pytest.mark.parametrize("written", ["${", "${}", "${1A}", "${A-B}", "${A"])
    def test_a_broken_one_is_a_problem(self, tmp_path: Path, written: str) -> None:
        (problem,) = read(tmp_path, f"a: '{written}'\n").problems
        assert "without a variable" in problem[2]

    @pytest.mark.parametrize("value", ["{x: 1}", "[1, 2]", "a: b\nc: d", "*x", "# y", "'", "&a b", "!!int 3", "~"])
    def test_their_values_never_change_the_structure(self, tmp_path: Path, value: str) -> None:
        assert read(tmp_path, "a: ${V}\nb: 1\n", V=value).data == {"a": value, "b": 1}

    def test_the_file_beside_the_configuration_defines_them_and_the_environment_wins(self, tmp_path: Path) -> None:
        (tmp_path / ".env").write_text("A=file\nB=file\n")
        raw = read(tmp_path, "a: ${A}\nb: ${B}\n", B="environment")
        assert raw.data == {"a": "file", "b": "environment"}

    @pytest.mark.parametrize(
        ("line", "value"),
        [
            ("V=x", "x"),
            ("export V=x", "x"),
            ("  V = x y  ", "x y"),
            ("V=x # comment", "x"),
            ("V=x#y", "x#y"),
            ("V=# comment", ""),
            ("V=", ""),
            ("V='a # \"b\" $C \\n'  # comment", 'a # "b" $C \\n'),
            ('V="a # \\"b\\"\\n\\\\"', 'a # "b"\n\\'),
            ("V=a=b", "a=b"),
        ],
    )
    def test_a_line_of_that_file_means_what_a_shell_would_make_of_it(
        self, tmp_path: Path, line: str, value: str
    ) -> None:
        (tmp_path / ".env").write_text(f"# a comment\n\n{line}\n")
        assert read(tmp_path, "a: '${V}'\n").data["a"] == value

    def test_its_faulty_lines_are_named_without_their_values(self, tmp_path: Path) -> None:
        (tmp_path / ".env").write_text("A=1\nhunter2\nB='hunter2\n1C=hunter2\n")
        text = refusal(tmp_path, "a: 1\n")
        assert [line.split(":")[0] for line in text.splitlines()] == [".env line 2", ".env line 3", ".env line 4"]
        assert "hunter2" not in text


class TestStateDir:
    """The one setting that `status` needs, of a configuration that may be wrong everywhere else."""

    @pytest.mark.parametrize(
        "text", ["nas: 3\n", "supervisor:\n", "supervisor: {}\n", "supervisor: {state_dir: ./var}\n"]
    )
    def test_it_starts_at_the_folder_of_the_file(self, tmp_path: Path, text: str) -> None:
        assert state_dir_of(read(tmp_path, text)) == str(tmp_path / "var")

    def test_a_secret_that_is_not_set_does_not_matter_here(self, tmp_path: Path) -> None:
        raw = read(tmp_path, "inbox: {secret: '${NOWHERE}'}\nunknown: 1\n")
        assert state_dir_of(raw) == str(tmp_path / "var")

    @pytest.mark.parametrize(
        ("text", "sentence"),
        [
            ("supervisor: 3\n", "line 1: supervisor must be a section"),
            ("supervisor:\n  state_dir: 3\n", "line 2: supervisor.state_dir must be a folder path"),
            ("supervisor:\n  state_dir: ''\n", "line 2: supervisor.state_dir must be a folder path"),
            (
                "supervisor:\n  state_dir: ${NOWHERE}\n",
                "line 2: supervisor.state_dir needs the environment variable NOWHERE,",
            ),
        ],
    )
    def test_where_it_is_wrong_itself_the_error_says_so(self, tmp_path: Path, text: str, sentence: str) -> None:
        raw = read(tmp_path, text)
        with pytest.raises(ConfigError) as caught:
            state_dir_of(raw)
        assert sentence in str(caught.value)
