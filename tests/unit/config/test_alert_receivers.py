"""Receivers of alerts in the configuration: every mistake is named with its key and line, and no secret is quoted."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisor_core.common.errors import ConfigError
from supervisor_core.config.load import SupervisorConfig, load_supervisor_config

KEY = "0123456789abcdef0123456789abcdef"


def load(folder: Path, receiver: str, **environ: str) -> SupervisorConfig:
    """A configuration whose second receiver, in line 4, is this."""
    text = f"alerts:\n  receivers:\n    - {{name: first, url: 'http://h/'}}\n    - {{{receiver}}}\n"
    (folder / "config.yaml").write_text(text)
    return load_supervisor_config(folder / "config.yaml", environ=environ)


def test_two_receivers_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"alerts\.receivers has the name first twice"):
        load(tmp_path, "name: first, url: 'http://other/'")


def test_a_receiver_without_an_address_is_off_and_a_service_has_its_own(tmp_path: Path) -> None:
    config = load(tmp_path, "name: a, format: pagerduty, secret: '${KEY:}'")
    assert [each.label for each in config.alerts.outside] == ["first"]
    on = load(tmp_path, "name: a, format: pagerduty, secret: '${KEY:}'", KEY=KEY).alerts.outside[1]
    assert (on.label, on.address) == ("a", "https://events.pagerduty.com/v2/enqueue")
    europe = f"name: a, format: pagerduty, secret: {KEY}, url: 'https://events.eu.pagerduty.com/v2/enqueue'"
    assert load(tmp_path, europe).alerts.outside[1].address == "https://events.eu.pagerduty.com/v2/enqueue"


def test_the_secret_of_a_receiver_is_one_of_the_configuration(tmp_path: Path) -> None:
    config = load(tmp_path, f"name: a, format: pagerduty, secret: {KEY}")
    assert KEY in config.secrets
    assert KEY not in f"{config!r} {config.alerts.receivers}"
