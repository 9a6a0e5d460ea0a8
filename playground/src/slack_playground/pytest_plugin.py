"""The pytest plugin: the fixture `slack`, a playground for one test, for `def` and `async def` alike.

An `async def` test that asks for `slack` runs in a loop of its own, so that no other plugin is needed. The mark
`@pytest.mark.playground(manifest="manifest.yml", rate_limits=True)` carries the arguments of `Playground`. pytest
finds this by itself where the package is installed.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Generator, Iterator
from typing import Any

import pytest

STORY = pytest.StashKey[str]()


def pytest_addoption(parser: pytest.Parser) -> None:
    words = "refuse unknown arguments of methods, as `strict=True` does"
    parser.addini("playground_strict", words, type="bool", default=False)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "playground(manifest=None, **options): the arguments of the fixture `slack`")


@pytest.fixture
def slack(request: pytest.FixtureRequest) -> Iterator[Any]:
    from slack_playground.testing.playground import Playground

    mark = request.node.get_closest_marker("playground")
    args, given = (mark.args, mark.kwargs) if mark else ((), {})
    options = {"strict": request.config.getini("playground_strict")} | given
    if inspect.iscoroutinefunction(request.node.obj):
        playground, test = Playground(*args, **options), request.node.obj

        @functools.wraps(test)
        async def started(*given: Any, **named: Any) -> None:  # noqa: ANN401
            """In the test's own loop, whichever plugin runs it."""
            async with playground:
                try:
                    await test(*given, **named)
                finally:
                    request.node.stash[STORY] = playground.story()

        request.node.obj = started
        yield playground
        request.node.obj = test
        return
    with Playground.in_thread(*args, **options) as plain:
        yield plain
        request.node.stash[STORY] = plain.story()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an `async def` test with its playground, where no other plugin does."""
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}  # noqa: SLF001
    if "slack" not in arguments or not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    from slack_playground.testing.playground import Playground

    if not isinstance(arguments["slack"], Playground):
        return None

    asyncio.run(pyfuncitem.obj(**arguments))
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show under a failure what people saw."""
    report = yield
    story = item.stash.get(STORY, "")
    if call.when == "call" and report.failed and story:
        report.sections.append(("Slack, as people saw it", story))
    return report
