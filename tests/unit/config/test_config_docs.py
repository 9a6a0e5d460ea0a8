"""The example, the file of variables and the reference page, compared with what the code knows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor_core.commands.catalog import CATALOG
from supervisor_core.config.load import load_supervisor_config
from supervisor_core.config.schema import ORIGIN

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "config.example.yaml"
REFERENCE = ROOT / "docs" / "reference" / "configuration.md"
ENV_EXAMPLE = ROOT / ".env.example"
OUR_OWN = {"SUPERVISOR_GENERATION", "SUPERVISOR_KEPT_LOCK"}  # set by us, read by nobody but us


@pytest.fixture(autouse=True)
def no_commands_of_the_example() -> Iterator[None]:
    """The example adds a command to this process's catalog."""
    yield
    CATALOG.extend(ORIGIN, ())


class TestExample:
    """`config.example.yaml`."""

    def test_it_loads_as_it_is(self) -> None:
        config = load_supervisor_config(EXAMPLE, environ={})
        assert config.pick_worker().id == "OrionMX"


class TestVariables:
    """`.env.example`."""

    def test_every_variable_that_the_code_reads_is_explained(self) -> None:
        explained = ENV_EXAMPLE.read_text(encoding="utf-8")
        reference = REFERENCE.read_text(encoding="utf-8")
        read = {
            name
            for folder in ("supervisor_core", "bot")
            for file in (ROOT / folder).rglob("*.py")
            for name in re.findall(r'["\']((?:SUPERVISOR|SLACK)_[A-Z_]*[A-Z])["\']', file.read_text(encoding="utf-8"))
        }
        read -= OUR_OWN
        read |= {f"{name}_FILE" for name in read if name.endswith("_TOKEN")}
        assert {"SUPERVISOR_CONFIG", "SLACK_BOT_TOKEN", "SLACK_APP_TOKEN_FILE", "SLACK_API_URL"} <= read
        for name in read:
            assert re.search(rf"^(?:# )?{name}=", explained, re.MULTILINE), f"{name} is not in .env.example"
            assert f"`{name}`" in reference, f"{name} is not in the reference"

    def test_every_variable_that_the_example_substitutes_is_explained(self) -> None:
        body = re.sub(r"#.*", "", EXAMPLE.read_text(encoding="utf-8"))
        substituted = set(re.findall(r"\$\{([A-Z_]+)", body))
        assert substituted
        for name in substituted:
            assert re.search(rf"^(?:# )?{name}=", ENV_EXAMPLE.read_text(encoding="utf-8"), re.MULTILINE), name
            assert f"`{name}`" in REFERENCE.read_text(encoding="utf-8"), name

    def test_it_can_be_copied_as_it_is(self, tmp_path: Path) -> None:
        (tmp_path / ".env").write_text(ENV_EXAMPLE.read_text(encoding="utf-8"), encoding="utf-8")
        (tmp_path / "config.yaml").write_text(EXAMPLE.read_text(encoding="utf-8"), encoding="utf-8")
        assert load_supervisor_config(tmp_path / "config.yaml", environ={}).environ["SLACK_BOT_TOKEN"] == ""
