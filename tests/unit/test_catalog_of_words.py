"""The catalog of words has every text that a person can see, and nothing else."""

from __future__ import annotations

import pytest

from tests.catalog_of_words import Text, catalog, main, texts_of
from tests.house import modules

SOURCE = '''
"""A module."""
KEYS = {"task_id": "SELECT a FROM b", "at": "%Y-%m-%d %H:%M"}
def act(n, log):
    """Act."""
    log.info("Restarting in %s s", n)
    if n > 3:
        raise ValueError(f"Choose {n} or {'one or two' if n else 'less'}.")
    return f"Quarantined after {n:.0f} restarts"
class LostError(Exception):
    """It is gone."""
class Holder:
    """It is kept."""
'''

SCREENS = {
    "bot/views/cards/alert.py": "alerts",
    "supervisor_core/alerts/rules.py": "alerts",
    "bot/requests/votes.py": "answers",
    "supervisor_core/intake/approvals/rules.py": "approvals",
    "supervisor_core/storage/audit/trail.py": "audit",
    "supervisor_core/cli/audit.py": "audit",
    "bot/views/cards/progress.py": "cards",
    "supervisor_core/cli/host.py": "cli",
    "supervisor_core/code/update.py": "code",
    "supervisor_core/commands/grammar.py": "commands",
    "supervisor_core/config/names.py": "configuration",
    "supervisor_core/storage/engine.py": "daemon",
    "bot/demo/tour.py": "demo",
    "bot/doctor/app.py": "doctor",
    "bot/views/forms.py": "forms",
    "supervisor_core/commands/manual.py": "help",
    "bot/views/home/page.py": "home",
    "playground/src/slack_playground/server.py": "playground",
    "bot/views/answers/why.py": "why",
    "supervisor_core/diagnosis/why/rules.py": "why",
    "supervisor_core/workers/health.py": "workers",
}


def test_a_text_is_a_literal_for_people_with_its_screen_and_line() -> None:
    assert texts_of("bot/views/home/page.py", SOURCE) == [
        Text("logs", "bot/views/home/page.py", 6, "Restarting in %s s"),
        Text("errors", "bot/views/home/page.py", 8, "Choose {…} or {…}."),
        Text("errors", "bot/views/home/page.py", 8, "one or two"),
        Text("home", "bot/views/home/page.py", 9, "Quarantined after {…} restarts"),
        Text("errors", "bot/views/home/page.py", 11, "It is gone."),
    ]


@pytest.mark.parametrize(("path", "screen"), SCREENS.items())
def test_each_module_belongs_to_a_screen(path: str, screen: str) -> None:
    assert texts_of(path, "return 'Flapping: 6 changes in 10 min'") == [
        Text(screen, path, 1, "Flapping: 6 changes in 10 min")
    ]


@pytest.mark.parametrize("path", ["supervisor_core/doctor/git.py", "supervisor_core/config/load.py"])
def test_an_error_of_the_configuration_or_the_doctor_is_seen_on_its_screen(path: str) -> None:
    assert [text.screen for text in texts_of(path, "raise ConfigError('The key is missing.')")] != ["errors"]


def test_the_catalog_has_every_screen_and_a_line_for_each_text() -> None:
    texts = catalog()
    assert {text.screen for text in texts} == {"logs", "errors", *SCREENS.values()}
    lines = {module.path: module.lines for module in modules()}
    assert all(lines[text.path] >= text.line > 0 for text in texts)


def test_a_sample_is_drawn_by_its_seed(capsys: pytest.CaptureFixture[str]) -> None:
    def drawn(*args: str) -> list[str]:
        main(args)
        return [line for line in capsys.readouterr().out.splitlines() if line and not line.startswith("==")]

    first = drawn("--screen", "forms", "--sample", "4", "--seed", "1")
    assert len(first) == 4
    assert first == drawn("--screen", "forms", "--sample", "4", "--seed", "1")
    assert first != drawn("--screen", "forms", "--sample", "4", "--seed", "2")
    assert set(first) < set(drawn("--screen", "forms"))
