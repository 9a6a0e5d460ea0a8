"""The reference of what other programs import."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from enum import Enum

import supervisor_core
from supervisor_core import compatibility, plugins
from tests.reference.markdown import code, fill, table

PLUGIN_NAMES = [name for name in plugins.__all__ if callable(getattr(plugins, name))]


def page() -> str:
    return fill(
        "library.md",
        {
            "names": table(("name", "use"), rows(supervisor_core, supervisor_core.__all__)),
            "plugins": table(("name", "use"), rows(plugins, PLUGIN_NAMES)),
            "version": plugins.API_VERSION,
            "archive": table(("name", "use"), rows(compatibility, compatibility.__all__)),
        },
    )


def rows(module: object, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The call and the first sentence of the docstring of each name."""
    for name in names:
        thing = getattr(module, name)
        yield code(f"{name}{arguments(thing)}"), first_sentence(thing)


def arguments(thing: object) -> str:
    """`(db, supervisor_id)` of a function or a class that can be called."""
    abstract = inspect.isclass(thing) and (issubclass(thing, Enum) or getattr(thing, "_is_protocol", False))
    if abstract or not callable(thing):
        return ""
    parameters = inspect.signature(thing).parameters.values()
    return f"({', '.join(each.name for each in parameters if each.kind is not each.KEYWORD_ONLY)})"


def first_sentence(thing: object) -> str:
    paragraph, _, _ = (inspect.getdoc(thing) or "").partition("\n\n")
    return " ".join(paragraph.split()).replace(f"{getattr(thing, '__name__', '')}(", "(")
