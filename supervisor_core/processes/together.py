"""Work on several workers in one thread: what they need at the same time is done once for all of them.

Work is written as a generator. Where it would block, or repeat what others do as well, it yields a `SharedNeed`: a scan
of all processes, a file that must be durable, the end of a process. It continues with the answer. `together` runs any
number of works in waves; a work alone, which `stepwise` makes an ordinary call, is a wave of one.
"""

from __future__ import annotations

import contextvars
import math
import os
import select
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import update_wrapper
from pathlib import Path
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar

from supervisor_core.host.files import write_all_json
from supervisor_core.host.process_facts import signals as pidfd
from supervisor_core.host.process_facts.facts import ProcessIdentity
from supervisor_core.host.process_facts.identity import state
from supervisor_core.host.process_facts.signals import LOOK_AGAIN_SECONDS, wait_ended

T = TypeVar("T")
P = ParamSpec("P")


class SharedNeed(ABC):
    """Something that a work waits for."""

    @classmethod
    @abstractmethod
    def answer(cls, needs: Sequence[Any]) -> Sequence[object]:
        """The answer to each of these needs of one kind. An exception is raised in its work, and in no other."""


Steps = Generator[SharedNeed, Any, T]
"""A work with a result."""


class Ended(SharedNeed):
    """Wait until these processes have ended, or for so many seconds. The answer names those that are left."""

    def __init__(self, identities: tuple[ProcessIdentity, ...], seconds: float) -> None:
        self.identities = identities
        self.seconds = seconds

    @classmethod
    def answer(cls, needs: Sequence[Ended]) -> Sequence[object]:
        """Wait for one; several are waited for by `together`, each with its own time."""
        answers: list[object] = []
        for need in needs:
            if not need.identities:
                time.sleep(need.seconds)
            answers.append(wait_ended(need.identities, need.seconds) if need.identities else ())
        return answers


class FileKept(SharedNeed):
    """A JSON document of ours that must be on the disk, whole."""

    def __init__(self, path: Path, document: Mapping[str, object]) -> None:
        self.path = path
        self.document = document

    @classmethod
    def answer(cls, needs: Sequence[FileKept]) -> Sequence[BaseException | None]:
        """Write all; the answer to one is its error."""
        return write_all_json([(need.path, need.document) for need in needs])


class Stepwise(Generic[P, T]):
    """A work as a function: called, it runs alone; its `steps` are for a work that it's a part of."""

    def __init__(self, steps: Callable[P, Steps[T]]) -> None:
        self.steps = steps
        update_wrapper(self, steps)

    def __call__(self, *arguments: P.args, **named: P.kwargs) -> T:
        return alone(self.steps(*arguments, **named))


def at_once(call: Callable[P, T]) -> Callable[P, Steps[T]]:
    """Make an ordinary call a work that never waits."""

    def steps(*arguments: P.args, **named: P.kwargs) -> Steps[T]:
        yield from ()
        return call(*arguments, **named)

    return steps


def stepwise(steps: Callable[P, Steps[T]]) -> Stepwise[P, T]:
    """Make a generator a function that runs to its end."""
    return Stepwise(steps)


def alone(steps: Steps[T]) -> T:
    """Run one work to its end."""
    answer: object = None
    try:
        while True:
            need = steps.throw(answer) if isinstance(answer, Exception) else steps.send(answer)
            try:
                (answer,) = need.answer([need])
            except Exception as error:  # noqa: BLE001 (the work may expect it)
                answer = error
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        steps.close()


class Result(NamedTuple):
    """The end of one of several works, by its place among them."""

    place: int
    value: Any = None
    error: Exception | None = None


def together(works: Sequence[Steps[Any]]) -> Iterator[list[Result]]:
    """Run these works; each wave of results is there as soon as its works have ended.

    Each work has a copy of the caller's context of its own, so what it says of itself in the log stays its own.
    """
    waits = _Waits()
    contexts = [contextvars.copy_context() for _ in works]
    answers: dict[int, object] = dict.fromkeys(range(len(works)))
    try:
        while answers or waits:
            needs: dict[type[SharedNeed], list[tuple[int, SharedNeed]]] = {}
            ended = []
            for place, answer in answers.items():
                came = _advance(works[place], contexts[place], place, answer)
                if isinstance(came, Result):
                    ended.append(came)
                elif isinstance(came, Ended):
                    waits.add(place, came)
                else:
                    needs.setdefault(type(came), []).append((place, came))
            if ended:
                yield ended
            answers = {}
            for kind, several in needs.items():
                answers |= _answered(kind, several)
            answers |= waits.over(wait=not answers)
    finally:
        waits.close()
        for work in works:
            work.close()


def _advance(work: Steps[Any], context: contextvars.Context, place: int, answer: object) -> SharedNeed | Result:
    try:
        if isinstance(answer, Exception):
            return context.run(work.throw, answer)
        return context.run(work.send, answer)
    except StopIteration as end:
        return Result(place, end.value)
    except Exception as error:  # noqa: BLE001 (it ends this work, and is the caller's to judge)
        return Result(place, error=error)


def _answered(kind: type[SharedNeed], several: list[tuple[int, SharedNeed]]) -> dict[int, object]:
    places = [place for place, _ in several]
    try:
        return dict(zip(places, kind.answer([need for _, need in several]), strict=True))
    except Exception as error:  # noqa: BLE001 (it's the answer to all of them)
        return dict.fromkeys(places, error)


class _Waits:
    """The works that wait for the end of processes, each until its own time; descriptors of those wake them."""

    def __init__(self) -> None:
        self._waits: dict[int, tuple[Ended, float]] = {}
        self._left: dict[int, set[ProcessIdentity]] = {}
        self._poll = select.poll() if pidfd.has_pidfds() else None
        self._descriptors: dict[int, tuple[int, ProcessIdentity]] = {}

    def __bool__(self) -> bool:
        return bool(self._waits)

    def add(self, place: int, need: Ended) -> None:
        """Let a work wait."""
        self._waits[place] = need, time.monotonic() + need.seconds
        self._left[place] = set(need.identities)
        if self._poll is None:
            return
        for identity in need.identities:
            try:
                descriptor = pidfd.descriptor_of(identity)
            except OSError:  # nobody can tell who it is, or none is left: it's looked at instead
                continue
            if descriptor is None:
                self._left[place].discard(identity)
            else:
                self._descriptors[descriptor] = place, identity
                self._poll.register(descriptor, select.POLLIN)

    def over(self, *, wait: bool) -> dict[int, object]:
        """The answers to works that needn't wait any longer. With `wait`, there is one, unless there are no works."""
        while self._waits:
            now = time.monotonic()
            done = {
                place: tuple(self._left[place])
                for place, (need, until) in self._waits.items()
                if now >= until or (need.identities and not self._left[place])
            }
            for place in () if done else self._look(max(0.0, min(u for _, u in self._waits.values()) - now) * wait):
                done[place] = ()
            for place in done:
                self._forget(place)
            if done or not wait:
                return dict(done)
        return {}

    def close(self) -> None:
        """Forget all."""
        for place in list(self._waits):
            self._forget(place)

    def _look(self, seconds: float) -> list[int]:
        """Wait for at most so long; return the works of which no process is left."""
        looked_at = {each for left in self._left.values() for each in left}
        looked_at -= {identity for _, identity in self._descriptors.values()}
        if looked_at:
            seconds = min(seconds, LOOK_AGAIN_SECONDS)
        if self._poll is None:
            time.sleep(seconds)
            ready = []
        else:
            ready = self._poll.poll(math.ceil(seconds * 1000))
        for descriptor, _ in ready:
            place, identity = self._descriptors[descriptor]
            self._left[place].discard(identity)
            self._shut(descriptor)
        gone = {identity for identity in looked_at if state(identity).ended}
        for left in self._left.values():
            left.difference_update(gone)
        return [place for place, left in self._left.items() if not left and self._waits[place][0].identities]

    def _forget(self, place: int) -> None:
        del self._waits[place], self._left[place]
        for descriptor in [each for each, (whose, _) in self._descriptors.items() if whose == place]:
            self._shut(descriptor)

    def _shut(self, descriptor: int) -> None:
        del self._descriptors[descriptor]
        if self._poll is not None:
            self._poll.unregister(descriptor)
        os.close(descriptor)
