"""The playground without await: it runs in a thread of its own, and every word of the language waits for its end."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from slack_playground.testing.cards import Element, Shown
from slack_playground.testing.people import ChannelView, Person
from slack_playground.testing.playground import NotSeen, Playground

LANGUAGE = (Playground, Person, ChannelView, Shown, Element)
LONGEST = 60.0  # seconds for one word; every word has a patience of its own that is shorter


class Plain:
    """One object of the language. Methods return when they are done."""

    def __init__(self, thing: object, loop: asyncio.AbstractEventLoop) -> None:
        vars(self).update(_thing=thing, _loop=loop)

    def __setattr__(self, name: str, value: object) -> None:
        self._run(lambda: setattr(self._thing, name, value))

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 -- whatever the language has under this name
        value = self._run(lambda: getattr(self._thing, name))
        if not callable(value):
            return self._wrapped(value)

        def call(*args: object, **kwargs: object) -> object:
            __tracebackhide__ = True
            plain = [_unwrapped(arg) for arg in args]
            named = {key: _unwrapped(arg) for key, arg in kwargs.items()}
            return self._wrapped(self._run(lambda: value(*plain, **named)))

        return call

    def __str__(self) -> str:
        return str(self._thing)

    def _run(self, do: Callable[[], object]) -> Any:  # noqa: ANN401
        async def inside() -> object:
            answer = do()
            return await answer if inspect.isawaitable(answer) else answer

        __tracebackhide__ = True
        try:
            return asyncio.run_coroutine_threadsafe(inside(), self._loop).result(LONGEST)
        except NotSeen as error:
            # How the words travelled between the threads helps nobody who reads a failed test.
            raise error.with_traceback(None) from None

    def _wrapped(self, value: object) -> object:
        return Plain(value, self._loop) if isinstance(value, LANGUAGE) else value


def _unwrapped(value: object) -> object:
    if isinstance(value, list):
        return [_unwrapped(each) for each in value]
    return value._thing if isinstance(value, Plain) else value  # noqa: SLF001 -- its own kind


@contextmanager
def in_thread(make: Callable[[], Playground]) -> Iterator[Any]:
    """Run a playground in a thread for as long as this lasts."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="playground", daemon=True)
    thread.start()

    def wait(coroutine: Coroutine[Any, Any, Any]) -> Any:  # noqa: ANN401
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result(LONGEST)

    async def started() -> Playground:
        return await make().__aenter__()

    try:
        playground = wait(started())
        try:
            yield Plain(playground, loop)
        finally:
            wait(playground.__aexit__(None, None, None))
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
