"""Whatever a file holds, it is a configuration or a `ConfigError`: nothing else ever comes out."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from supervisor_core.common.errors import ConfigError
from supervisor_core.config.load import load_supervisor_config
from supervisor_core.config.raw import read_raw, state_dir_of
from supervisor_core.config.schema import Settings
from supervisor_core.config.sections import setting_paths
from tests.support.sampling import examples

EXAMPLE = (Path(__file__).parents[3] / "config.example.yaml").read_text(encoding="utf-8")
PLACES = sorted(setting_paths(Settings), key=str)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(
        ["", "${X}", "${", "all", "team:x", "~nobody/x", "../x", "[::1", "http://[", "{", "*", "a:1", "nats://:0"]
    )
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def check(content: bytes) -> None:
    """Loads a file with this content, and reads its `state_dir`; any other error than a refusal is a failure."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "config.yaml"
        file.write_bytes(content)
        with suppress(ConfigError):
            state_dir_of(read_raw(file, {"X": "y"}))
        try:
            said = repr(load_supervisor_config(file, environ={"X": "y"}))
        except ConfigError as error:
            said = str(error)
    assert said.strip()


def nested(path: tuple[Any, ...], value: Any) -> Any:
    """The document in which this value stands at this place."""
    for key in reversed(path):
        value = {key: value}
    return value


@given(st.binary(max_size=200))
@settings(max_examples=examples(60))
def test_any_bytes(content: bytes) -> None:
    check(content)


@given(st.text(alphabet="ab:-#&*!|>'\"%@`{}[],?~<$ \n\t1.", max_size=80))
@settings(max_examples=examples(200))
def test_any_text_that_looks_like_yaml(text: str) -> None:
    check(text.encode())


@given(st.sampled_from(PLACES), VALUES)
@settings(max_examples=examples(300))
def test_any_value_in_the_place_of_any_setting(path: tuple[str, ...], value: Any) -> None:
    check(yaml.safe_dump(nested(path, value), allow_unicode=True).encode())


@given(st.integers(0, len(EXAMPLE)), st.text(alphabet="ab:-&*'\"{}[]$ \n1", max_size=5), st.integers(0, 20))
@settings(max_examples=examples(80))
def test_any_damage_to_the_example(place: int, inserted: str, removed: int) -> None:
    check((EXAMPLE[:place] + inserted + EXAMPLE[place + removed :]).encode())
