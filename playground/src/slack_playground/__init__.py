"""A local Slack: Web API, Socket Mode, a page in the browser, and a language for tests."""

from __future__ import annotations

from typing import Any

__all__ = ["NotSeen", "Playground", "Timings"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 -- loaded on first use, because the command line must be quick
    if name in ("NotSeen", "Playground"):
        from slack_playground.testing import playground

        return getattr(playground, name)
    if name == "Timings":
        from slack_playground.values import Timings

        return Timings
    raise AttributeError(name)
