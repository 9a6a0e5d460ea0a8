"""The size of the house: `python -m tests.house` prints it; `tests/unit/test_house.py` holds its limits."""

from __future__ import annotations

import ast
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[1]
TREES = ("supervisor_core", "bot", "playground/src/slack_playground")
"""The package of each distribution: `supervisor-chatops` has two, `slack-playground` one."""

MOST_ENTRIES = 15
SHORTEST, LONGEST = 60, 400
MOST_PARAMETERS = 12
NOT_COUNTED = ("__init__.py", "py.typed", "__pycache__")


@dataclass(frozen=True)
class Module:
    """A Python file, by its path in the repository."""

    path: str
    text: str

    @property
    def lines(self) -> int:
        return len(self.text.splitlines())

    @cached_property
    def tree(self) -> ast.Module:
        """Parsed when it's first needed: tests are collected by their modules' names."""
        return ast.parse(self.text)

    @property
    def subject(self) -> str:
        """The package and the folder below it: `supervisor_core/alerts`."""
        package = PurePosixPath(tree_of(self.path))
        return "/".join([package.name, *PurePosixPath(self.path).parent.relative_to(package).parts[:1]])

    def classes(self) -> Iterator[ast.ClassDef]:
        return (node for node in self.tree.body if isinstance(node, ast.ClassDef))


@dataclass(frozen=True)
class Folder:
    """A folder that holds modules, and how many entries it has."""

    path: str
    entries: int


def tree_of(path: str) -> str:
    """The one of the trees that a path lies in."""
    return next(tree for tree in TREES if f"{path}/".startswith(f"{tree}/"))


@cache
def modules() -> Sequence[Module]:
    """All modules of the three packages."""
    paths = (path for tree in TREES for path in sorted((ROOT / tree).rglob("*.py")))
    return [Module(path.relative_to(ROOT).as_posix(), path.read_text()) for path in paths]


def folders(trees: Sequence[str] = TREES) -> Iterator[Folder]:
    """Every folder that holds modules or such folders; `__init__.py` and caches are no entries."""
    holding = {parent for tree in trees for path in (ROOT / tree).rglob("*.py") for parent in path.parents}
    inside = {path for path in holding if any(path.is_relative_to(ROOT / tree) for tree in trees)}
    for path in sorted(inside):
        entries = [entry for entry in path.iterdir() if entry.name not in NOT_COUNTED and entry.name[0] != "."]
        yield Folder(path.relative_to(ROOT).as_posix(), len(entries))


def constructor_parameters(node: ast.ClassDef) -> int:
    """The parameters of `__init__`; of a dataclass or a named tuple, its fields."""
    for child in node.body:
        if isinstance(child, ast.FunctionDef) and child.name == "__init__":
            return len([*child.args.posonlyargs, *child.args.args, *child.args.kwonlyargs]) - 1
    made = " ".join(map(ast.unparse, [*node.decorator_list, *node.bases]))
    if "dataclass" not in made and "NamedTuple" not in made:
        return 0
    fields = [child for child in node.body if isinstance(child, ast.AnnAssign)]
    return sum("ClassVar" not in ast.unparse(field) and "init=False" not in ast.unparse(field) for field in fields)


def classes_defined_twice() -> Mapping[str, set[str]]:
    """Public classes of one name in several subjects, and these subjects. The playground is a world of its own."""
    found = defaultdict[tuple[bool, str], set[str]](set)
    for module in modules():
        for node in module.classes():
            if not node.name.startswith("_"):
                found[tree_of(module.path) == TREES[-1], node.name].add(module.subject)
    return {name: subjects for (_, name), subjects in found.items() if len(subjects) > 1}


def crowded_classes() -> Iterator[tuple[Module, str]]:
    """Classes with too many constructor parameters, and their modules."""
    for module in modules():
        for node in module.classes():
            if constructor_parameters(node) > MOST_PARAMETERS:
                yield module, node.name


def is_short(module: Module) -> bool:
    return module.lines < SHORTEST and not module.path.endswith(("/__init__.py", "/__main__.py"))


@cache
def offenders() -> Counter[str]:
    """Everything beyond a limit, one line each."""
    found = [f"module over {LONGEST} lines: {module.path}" for module in modules() if module.lines > LONGEST]
    found += [f"module under {SHORTEST} lines: {module.path}" for module in modules() if is_short(module)]
    found += [f"constructor: {module.path} {name}" for module, name in crowded_classes()]
    found += [f"class defined twice: {name}" for name in classes_defined_twice()]
    found += [f"folder: {folder.path}" for folder in folders((*TREES, "tests")) if folder.entries > MOST_ENTRIES]
    described = {str(PurePosixPath(module.path).parent) for module in modules() if is_description(module)}
    found += [f"no description: {folder.path}" for folder in folders() if folder.path not in described]
    return Counter(found)


def is_description(module: Module) -> bool:
    """An `__init__.py` that says what belongs in its folder."""
    return module.path.endswith("/__init__.py") and len(ast.get_docstring(module.tree) or "") > 20


def rows() -> Iterator[Sequence[object]]:
    """The table that the command prints."""
    yield "", "lines", "modules", f"< {SHORTEST}", f"> {LONGEST}", "folders", "constructors", "classes twice", "largest"
    twice = classes_defined_twice()
    for tree in TREES:
        name = PurePosixPath(tree).name
        here = [module for module in modules() if tree_of(module.path) == tree]
        largest = max(folders([tree]), key=lambda folder: folder.entries)
        lines, short = sum(module.lines for module in here), sum(map(is_short, here))
        long = sum(module.lines > LONGEST for module in here)
        crowded = sum(tree_of(module.path) == tree for module, _ in crowded_classes())
        doubled = sum(
            any(subject.split("/", maxsplit=1)[0] == name for subject in subjects) for subjects in twice.values()
        )
        figures = (lines, len(here), short, long, len(list(folders([tree]))), crowded, doubled)
        yield name, *figures, f"{largest.path} ({largest.entries})"


def main() -> int:
    for first, *middle, last in rows():
        sys.stdout.write(f"{first:16}{''.join(f'{cell!s:>14}' for cell in middle)}  {last}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
