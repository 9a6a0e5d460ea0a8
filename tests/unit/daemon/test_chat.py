"""The chat plugin: found by its entry point, and an error that says what to do where none is installed."""

from __future__ import annotations

import argparse
import json
from importlib.metadata import EntryPoints
from pathlib import Path

import pytest

from bot.plugin import SlackPlugin
from supervisor_core.cli.upkeep import run_doctor
from supervisor_core.common.errors import SupervisorError
from supervisor_core.daemon import chat
from tests.support.homes import a_home


@pytest.fixture
def none_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat, "entry_points", lambda **_: EntryPoints())


def test_the_bot_is_the_installed_chat() -> None:
    plugin: chat.ChatPlugin = SlackPlugin()
    assert type(chat.installed_chat()) is type(plugin)


@pytest.mark.usefixtures("none_installed")
def test_without_a_chat_the_error_says_how_to_install_one() -> None:
    with pytest.raises(SupervisorError, match="No chat is installed") as caught:
        chat.installed_chat()
    assert "pip install" in caught.value.remedy


@pytest.mark.usefixtures("none_installed")
def test_the_doctor_reports_that_no_chat_is_installed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with a_home(tmp_path / "home") as home:
        run_doctor(argparse.Namespace(config=str(home.config), json=True))
    checks = json.loads(capsys.readouterr().out)["checks"]
    [found] = [check for check in checks if check["name"] == "slack"]
    assert "No chat is installed" in found["message"]
