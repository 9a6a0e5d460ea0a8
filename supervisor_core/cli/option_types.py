"""The types of options: each turns text into a value, or says what it expected."""

from __future__ import annotations

from argparse import Action, ArgumentTypeError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Sequence
    from typing import Any

MOST = 1_000_000
HIGHEST_PORT = 65535
MOST_LATENCY = 60_000  # milliseconds
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
"""From harmless to worst."""


def count(text: str) -> int:
    """A number of lines."""
    return _number(text, 0)


def rows(text: str) -> int:
    """A number of rows."""
    return _number(text, 1)


def port(text: str) -> int:
    """A TCP port."""
    if not text.isascii() or not text.isdigit() or int(text) > HIGHEST_PORT:
        raise ArgumentTypeError(f"must be a port from 0 (any free one) to {HIGHEST_PORT}, not {text!a}")
    return int(text)


def latency(text: str) -> float:
    """Seconds, from a number of milliseconds below one minute."""
    if not text.isascii() or not text.isdigit() or int(text) >= MOST_LATENCY:
        raise ArgumentTypeError(f"must be milliseconds from 0 to {MOST_LATENCY - 1}, not {text!a}")
    return int(text) / 1000


def level(text: str) -> str:
    """A log level, in any case."""
    if text.upper() not in LEVELS:
        raise ArgumentTypeError(f"must be one of {', '.join(LEVELS).lower()}, not {text!a}")
    return text.upper()


def event(text: str) -> str:
    """The name of a log event, or a pattern that matches some."""
    from supervisor_core.common.log_events import NO_EVENT, LogEvent, unknown_pattern
    from supervisor_core.common.text import nearest

    if unknown_pattern(text):
        near = nearest(text, [NO_EVENT, *(each.event for each in LogEvent)])
        hint = f". Did you mean {near}?" if near else "; docs/reference/events.md lists them"
        raise ArgumentTypeError(f"there's no log event {text!a}{hint}")
    return text


def seconds(text: str) -> float:
    """A time limit."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < MOST:
        raise ArgumentTypeError(f"must be a number of seconds above 0, not {text!a}")
    return number


def _number(text: str, least: int) -> int:
    try:
        number = int(text)
    except ValueError:
        number = -1
    if not least <= number <= MOST:
        raise ArgumentTypeError(f"must be a number from {least} to {MOST}, not {text!a}")
    return number


class OfWorker(Action):
    """Collects `--worker ID` and the options behind it that are about this worker."""

    def __call__(
        self,
        parser: ArgumentParser,
        namespace: Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        """Begin a worker, or add to the last one."""
        workers = list(getattr(namespace, self.dest) or ())
        name = self.option_strings[0].removeprefix("--")
        if name == self.dest:
            workers.append({name: values})
        elif not workers:
            parser.error(f"{option_string} must follow the --worker that it's about")
        else:
            workers[-1] = {**workers[-1], name: values}
        setattr(namespace, self.dest, workers)
