"""Every text that a person can see: `python -m tests.catalog_of_words` prints all, by screen.

A text is a string literal for people, with its file and line; the parts of an f-string that are computed are `{…}`.
Docstrings, keys, identifiers, paths, SQL and patterns aren't texts. The docstring of an error is: it is its message.
"""

from __future__ import annotations

import argparse
import ast
import random
import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from functools import cache
from itertools import groupby
from typing import NamedTuple

from tests.house import modules

NOT_SHOWN = ("*/migrations/*", "supervisor_core/demo/program/*")
SCREENS = (
    ("playground", "playground/*"),
    ("demo", "*/demo/*"),
    ("doctor", "*/doctor/*"),
    ("home", "bot/views/home/*"),
    ("home", "bot/outbound/home*"),
    ("forms", "bot/views/forms*"),
    ("forms", "bot/requests/form*"),
    ("why", "*/why*"),
    ("help", "bot/views/answers/help*"),
    ("help", "supervisor_core/commands/[cdm]*"),
    ("audit", "*/audit/*"),
    ("audit", "*/audit*.py"),
    ("alerts", "*/views/cards/alert*"),
    ("alerts", "*/views/cards/digests*"),
    ("alerts", "supervisor_core/alerts/*"),
    ("alerts", "supervisor_core/workers/conditions/*"),
    ("cards", "bot/views/cards/*"),
    ("answers", "bot/*"),
    ("cli", "supervisor_core/cli/*"),
    ("configuration", "supervisor_core/config/*"),
    ("approvals", "supervisor_core/intake/*"),
    ("code", "supervisor_core/code/*"),
    ("daemon", "supervisor_core/[dhs]*"),
    ("workers", "supervisor_core/[jpw]*"),
    ("commands", "*"),
)
"""The screen of a module, unless the text is logged or is an error; the first pattern that fits counts."""

LOG_LEVELS = {"debug", "info", "warning", "error", "exception", "critical", "log"}
_NOT_TEXT = re.compile(
    r"\s*(IF NOT|SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|DROP|PRAGMA|VACUUM|SAVEPOINT|RELEASE|ROLLBACK|COMMIT|BEGIN)\b"
    r"|.*(\(\?[:P]|\[\^|\\[dswSDW]|%[aYHMb])|([A-Z][a-z]+){2,}$|[A-Z0-9_.{}…-]+$|[\W_]*$|[^ ]*[/_=<>][^ ]*$",
    re.DOTALL,
)


class Text(NamedTuple):
    """A text with its screen and its place."""

    screen: str
    path: str
    line: int
    words: str


def templates(node: ast.AST, context: str = "") -> Iterator[tuple[int, str, str]]:
    """Line, template and context (`log`, `error` or nothing) of each string literal that isn't a docstring."""
    for child in ast.iter_child_nodes(node):
        inside = _context(child) or context
        if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
            if isinstance(node, ast.ClassDef) and _is_error(node) and child is node.body[0]:
                yield child.lineno, str(child.value.value), "error"
        elif isinstance(child, ast.Constant):
            if isinstance(child.value, str):
                yield child.lineno, child.value, inside
        elif isinstance(child, ast.JoinedStr):
            values = [part for part in child.values if isinstance(part, ast.FormattedValue)]
            yield child.lineno, "".join(map(_part, child.values)), inside
            for value in values:
                yield from templates(value, inside)
        else:
            yield from templates(child, inside)


def _part(part: ast.expr) -> str:
    return str(part.value) if isinstance(part, ast.Constant) else "{…}"


def _context(node: ast.AST) -> str:
    if isinstance(node, ast.Raise):
        return "error"
    called = node.func if isinstance(node, ast.Call) else None
    logged = (
        isinstance(called, ast.Attribute) and called.attr in LOG_LEVELS and ast.unparse(called.value).endswith("log")
    )
    return "log" if logged else ""


def _is_error(node: ast.ClassDef) -> bool:
    return any(ast.unparse(base).endswith(("Error", "Exception", "Unavailable")) for base in node.bases)


def is_prose(text: str) -> bool:
    """A text for people, not a key, a path, an identifier, SQL or a pattern."""
    return (" " in text.strip() or text[:1].isupper()) and not _NOT_TEXT.match(text)


def screen(path: str, context: str = "") -> str:
    """The screen that a module's texts are seen on."""
    found = next(name for name, pattern in SCREENS if fnmatch(path, pattern))
    kept = found in ("playground", "doctor", "configuration")
    return found if kept or not context else {"log": "logs", "error": "errors"}[context]


def texts_of(path: str, source: str) -> list[Text]:
    """The texts of one module, in their order."""
    return _texts_in(path, ast.parse(source))


def _texts_in(path: str, tree: ast.Module) -> list[Text]:
    found = templates(tree)
    return [Text(screen(path, context), path, line, words) for line, words, context in found if is_prose(words)]


@cache
def catalog() -> Sequence[Text]:
    """All texts, by screen."""
    shown = (module for module in modules() if not any(fnmatch(module.path, hidden) for hidden in NOT_SHOWN))
    texts = [text for module in shown for text in _texts_in(module.path, module.tree)]
    return sorted(texts, key=lambda text: (text.screen, text.path))


def main(args: Sequence[str] | None = None) -> None:
    """Print the catalog, one screen of it, or a random sample for judging."""
    parser = argparse.ArgumentParser(prog="python -m tests.catalog_of_words")
    parser.add_argument("--screen", choices=sorted({"logs", "errors", *(name for name, _ in SCREENS)}))
    parser.add_argument("--sample", type=int, metavar="N", help="N texts, drawn at random")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args(args)
    texts = [text for text in catalog() if chosen.screen in (None, text.screen)]
    if chosen.sample:
        texts = sorted(random.Random(chosen.seed).sample(texts, min(chosen.sample, len(texts))))
    for name, group in groupby(texts, key=lambda text: text.screen):
        rows = list(group)
        print(f"\n== {name} ({len(rows)})")
        for text in rows:
            print(f"{text.path}:{text.line}: {text.words!r}")


if __name__ == "__main__":
    main()
