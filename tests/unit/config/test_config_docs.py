"""The example, the file of variables and the reference page, compared with what the code knows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from supervisor_core.commands.catalog import CATALOG
from supervisor_core.common.section_checks import SecretStr
from supervisor_core.common.sections import UNDEFINED, Section
from supervisor_core.config.alert_settings import EscalationSettings, Maintenance, QuietHours, ReceiverSettings
from supervisor_core.config.command_settings import ORIGIN
from supervisor_core.config.load import load_supervisor_config
from supervisor_core.config.models import Settings
from supervisor_core.config.worker_settings import ProbeSettings

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "config.example.yaml"
REFERENCE = ROOT / "docs" / "reference" / "configuration.md"
ENV_EXAMPLE = ROOT / ".env.example"
ITEMS: Mapping[str, type[Section]] = {
    "probes": ProbeSettings,
    "escalation": EscalationSettings,
    "quiet_hours": QuietHours,
    "maintenance": Maintenance,
    "receivers": ReceiverSettings,
}
OUR_OWN = {"SUPERVISOR_GENERATION", "SUPERVISOR_KEPT_LOCK"}  # set by us, read by nobody but us
CHOSEN = {"workers": "ID", "teams": "NAME", "commands": "NAME", "commands.NAME.parameters": "NAME"}


@pytest.fixture(autouse=True)
def no_commands_of_the_example() -> Iterator[None]:
    """The example adds a command to this process's catalog."""
    yield
    CATALOG.extend(ORIGIN, ())


def settings(model: type[Section] = Settings, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every setting with its default, as a reader writes it: `workers.ID.probes[].http`."""
    for field in model.model_fields.values():
        here = f"{path}{field.key}"
        inner = next(sections(field.annotation), None)
        default = field.get_default()
        if inner is None or isinstance(default, tuple):
            yield here, default
        if inner is not None:
            step = f".{CHOSEN[here]}" if here in CHOSEN else "[]" if isinstance(default, tuple) else ""
            yield from settings(inner, f"{here}{step}.")


def sections(annotation: Any) -> Iterator[type[Section]]:
    """The kinds of sections within the type of a setting."""
    if isinstance(annotation, type) and not get_args(annotation):
        if issubclass(annotation, Section):
            yield annotation
        return
    for argument in get_args(annotation):
        yield from sections(argument)


def written(key: str, default: Any) -> Any:
    """A default as it is written in YAML."""
    if default is UNDEFINED:
        return "required"
    if key == "nas.file_mode":
        return f"{default:04o}"
    if isinstance(default, SecretStr):
        return default.get_secret_value()
    if default is None:
        return "none" if "[]" in key else ""
    if isinstance(default, tuple):
        return list(default)
    return dict(default) if isinstance(default, Mapping) else default


def same(documented: Any, default: Any) -> bool:
    """Whether two defaults mean the same; `./var` and `var` do."""
    if isinstance(default, Path):
        return Path(documented) == default
    return bool(documented == default)


def rows() -> dict[str, tuple[str, str, str]]:
    """The reference page: key → type, default, description."""
    found: dict[str, tuple[str, str, str]] = {}
    for line in REFERENCE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if line.startswith("| `") and len(cells) == 4:
            key, kind, default, description = cells
            assert key not in found, f"{key} is documented twice"
            found[key.strip("`")] = (kind, default, description)
    return found


def example_keys(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The settings of the example in the same form."""
    for key, item in value.items():
        here = f"{path}{key}"
        if here in CHOSEN:
            for inner in item.values():
                yield from example_keys(inner, f"{here}.{CHOSEN[here]}.")
        elif isinstance(item, dict) and item:
            yield from example_keys(item, f"{here}.")
        else:
            yield here, item


def commented_items() -> dict[str, list[dict[str, Any]]]:
    """The items that the example shows in comments, by the list above which they stand."""
    found: dict[str, list[dict[str, Any]]] = {}
    waiting: list[dict[str, Any]] = []
    for line in EXAMPLE.read_text(encoding="utf-8").splitlines():
        if shown := re.fullmatch(r"\s*#\s+- (\{.*\})", line):
            waiting.append(yaml.safe_load(shown[1]))
        elif waiting and (key := re.match(r"\s*([a-z_]+):", line)):
            found[key[1]], waiting = waiting, []
    return found


class TestExample:
    """`config.example.yaml`."""

    def test_it_loads_as_it_is(self) -> None:
        config = load_supervisor_config(EXAMPLE, environ={})
        assert config.pick_worker().id == "OrionMX"

    def test_it_has_every_setting_and_no_other(self) -> None:
        shown = {key for key, _ in example_keys(yaml.safe_load(EXAMPLE.read_text(encoding="utf-8")))}
        assert shown == {key for key, _ in settings() if "[]" not in key}

    def test_it_shows_the_defaults(self) -> None:
        example = load_supervisor_config(EXAMPLE, environ={}).model_dump(exclude={"workers", "teams", "commands"})
        plain = Settings.model_validate({}, context={"folder": ROOT}).model_dump(
            exclude={"workers", "teams", "commands"}
        )
        assert example == plain

    def test_its_worker_has_the_defaults_but_for_its_command_and_team(self) -> None:
        example = load_supervisor_config(EXAMPLE, environ={}).pick_worker().model_dump(exclude={"command", "team"})
        given = {"workers": {"W": {"command": ["x"]}}}
        plain = Settings.model_validate(given, context={"folder": ROOT}).workers["W"]
        assert example == plain.model_dump(exclude={"command", "team"})

    def test_the_items_in_its_comments_are_right_and_show_every_key(self) -> None:
        shown = commented_items()
        assert shown.keys() == ITEMS.keys()
        for name, model in ITEMS.items():
            for item in shown[name]:
                model.model_validate(item)
            keys = {key for item in shown[name] for key in item}
            assert keys == {field.alias or key for key, field in model.model_fields.items()}

    def test_every_line_fits_a_terminal(self) -> None:
        assert max(len(line) for line in EXAMPLE.read_text(encoding="utf-8").splitlines()) <= 120


class TestReference:
    """`docs/reference/configuration.md`."""

    def test_it_has_every_setting_and_no_other(self) -> None:
        assert set(rows()) - {name for name in rows() if name.isupper()} == {key for key, _ in settings()}

    @pytest.mark.parametrize(("key", "default"), list(settings()), ids=[key for key, _ in settings()])
    def test_it_says_type_default_and_description(self, key: str, default: Any) -> None:
        kind, shown, description = rows()[key]
        documented = yaml.safe_load(shown.strip("`"))
        assert same(documented, written(key, default))
        last = key.rpartition(".")[2]
        if last.endswith(("_seconds", "_minutes")):
            assert kind.partition(",")[0] == last.rpartition("_")[2], "bounds may follow"
        if isinstance(default, bool):
            assert kind == r"true \| false"
        assert kind
        assert description.endswith(".")


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
