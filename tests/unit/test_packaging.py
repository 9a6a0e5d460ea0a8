"""What is published: a wheel with what its users need, for Pythons that every change is tried on."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = PROJECT["project"]["optional-dependencies"]
WHEEL = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]


def workflow(name: str) -> str:
    return (ROOT / ".github" / "workflows" / name).read_text(encoding="utf-8")


def test_every_python_that_is_named_runs_every_change() -> None:
    named = re.findall(r"Python :: (3\.\d+)$", "\n".join(PROJECT["project"]["classifiers"]), re.MULTILINE)
    tried = yaml.safe_load(workflow("check.yml"))["jobs"]["check"]["strategy"]["matrix"]["python"]
    assert named
    assert set(named) <= set(tried)
    assert PROJECT["project"]["requires-python"] == f">={tried[0]}"


def test_the_wheel_has_the_manifest_and_the_units() -> None:
    for source, place in WHEEL["force-include"].items():
        assert (ROOT / source).exists()
        assert place.partition("/")[0] in WHEEL["packages"]


@pytest.mark.parametrize("where", ["Dockerfile", "Makefile"])
def test_the_extras_that_are_installed_exist(where: str) -> None:
    wanted = re.findall(r"'\.\[([a-z,-]+)\]'", (ROOT / where).read_text(encoding="utf-8"))
    assert wanted
    assert {extra for each in wanted for extra in each.split(",")} <= set(EXTRAS)


def test_the_image_copies_what_the_build_reads() -> None:
    copied = re.findall(r"^COPY (?!--from)(.+)$", (ROOT / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE)
    sources = {name for line in copied for name in line.split()[:-1]}
    needed = {"pyproject.toml", "constraints.txt", *WHEEL["packages"], *WHEEL["force-include"]}
    needed |= {PROJECT["project"]["readme"], *PROJECT["project"]["license-files"]}
    assert needed <= sources
    allowed = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    assert {f"!{name}" for name in sources} <= set(allowed)


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_package_is_pinned() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").split()
    pinned = {canonical(line.partition("==")[0]) for line in lines}
    needed = [*PROJECT["project"]["dependencies"], *(each for extra in EXTRAS.values() for each in extra)]
    names = {canonical(Requirement(each).name) for each in needed}
    ours = {"slack-playground"}
    assert names - ours - {name for name in names if name.startswith("types-")} <= pinned
