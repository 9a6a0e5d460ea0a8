"""Virtual environments with a pip of their own, and the packages to put into them: real ones, without an index.

`a_venv(tmp_path / "venv")` is a new environment in a fraction of a second. `make_wheel` and `make_source` write
packages into a folder; with `offline(folder)` among its arguments pip takes them from there.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path

from tests.support.storage import run_folder

BIN = "Scripts" if os.name == "nt" else "bin"
BACKEND = "def build_wheel(*_, **__):\n    raise RuntimeError('nothing can be built of this')\n"


@dataclass(frozen=True)
class Venv:
    """A virtual environment that holds nothing but pip."""

    folder: Path

    @property
    def python(self) -> str:
        """Its interpreter."""
        return str(self.folder / BIN / "python")

    @property
    def site(self) -> Path:
        """Where its packages lie."""
        inside = "Lib" if os.name == "nt" else f"lib/python{sys.version_info.major}.{sys.version_info.minor}"
        return self.folder / inside / "site-packages"

    def put(self, *wheels: Path) -> None:
        """Install wheels without pip, which is quicker. For those of `make_wheel`: unpacked they are installed."""
        for wheel in wheels:
            with zipfile.ZipFile(wheel) as content:
                content.extractall(self.site)

    def take(self, name: str) -> None:
        """Remove a package of `make_wheel`, without pip."""
        (self.site / f"{name}.py").unlink(missing_ok=True)
        for each in self.site.glob(f"{name}-*.dist-info"):
            shutil.rmtree(each)

    def versions(self) -> dict[str, str]:
        """What is installed beside pip, as the metadata in it says and without asking pip."""
        found = {each.metadata["Name"]: each.version for each in distributions(path=[str(self.site)])}
        return {name: version for name, version in sorted(found.items()) if name != "pip"}

    def run(self, code: str) -> str:
        """What a program prints that runs in it."""
        words = [self.python, "-c", code]
        return subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout.strip()


def a_venv(folder: Path) -> Venv:
    """A new virtual environment with pip in this folder, which is made: a copy of one that was made first in this run.

    Pip's own files are shared among them all: replace or remove one, as pip does, but never write into it.
    """
    shutil.copytree(_first(), folder, symlinks=True, copy_function=_share)
    return Venv(folder)


def _share(source: str, target: str) -> None:
    try:
        os.link(source, target)  # a tenth of the time that copying takes
    except OSError:  # another file system
        shutil.copy2(source, target)


def _first() -> Path:
    """The one that the others are copied from, since pip's installation is slow."""
    return run_folder.made_once("venv", _make)


def _make(folder: Path) -> None:
    first = Venv(folder)
    subprocess.run([sys.executable, "-m", "venv", str(first.folder)], check=True, timeout=100)
    for other in ("setuptools", "wheel", "pkg_resources", "_distutils_hack", "distutils-precedence.pth"):
        for path in first.site.glob(f"{other}*"):  # an older Python puts them there
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def offline(*folders: Path) -> list[str]:
    """The arguments with which pip takes packages from these folders, and from nowhere else."""
    return ["--no-index", *(word for folder in folders for word in ("--find-links", str(folder)))]


def pip_free(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """This environment without what the machine tells pip, and with an index that refuses: no test asks a real one."""
    kept = {name: value for name, value in environ.items() if not name.upper().startswith("PIP_")}
    return kept | {"PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": "http://127.0.0.1:9/simple/"}


def make_wheel(folder: Path, name: str, version: str, requires: Sequence[str] = (), module_text: str = "") -> Path:
    """A wheel with one module of the package's name, which must be one that a module may have.

    Without `module_text`, the module has its version in `VERSION`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    information = f"{name}-{version}.dist-info"
    content = {
        f"{name}.py": module_text or f"VERSION = {version!r}\n",
        f"{information}/METADATA": _metadata(name, version, requires),
        f"{information}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = f"{information}/RECORD"
    content[record] = "".join(f"{path},,\n" for path in (*content, record))  # the hashes are optional
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        for path, text in content.items():
            file.writestr(path, text)
    return wheel


def make_source(folder: Path, name: str, version: str, backend: str = BACKEND) -> Path:
    """A source archive that pip must build; it runs `backend`, a module's text, which fails unless said otherwise."""
    folder.mkdir(parents=True, exist_ok=True)
    project = (
        f'[project]\nname = "{name}"\nversion = "{version}"\n'
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    )
    content = {"pyproject.toml": project, "backend.py": backend, "PKG-INFO": _metadata(name, version, ())}
    archive = folder / f"{name}-{version}.tar.gz"
    with tarfile.open(archive, "w:gz") as file:
        for path, text in content.items():
            entry = tarfile.TarInfo(f"{name}-{version}/{path}")
            entry.size = len(text.encode())
            file.addfile(entry, io.BytesIO(text.encode()))
    return archive


def _metadata(name: str, version: str, requires: Sequence[str]) -> str:
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    return "\n".join([*lines, *(f"Requires-Dist: {each}" for each in requires)]) + "\n"
