"""The modules that may touch files by themselves, each with its reason. All others use `drive_files`.

Whoever can write to the shared drive is treated as hostile, so every file there is reached through
`supervisor_core/host/drive_files.py`. A module that opens, lists, moves or removes files in any other way fails
here until it's listed below, with what it touches. Nothing in the list may touch the shared drive.
"""

from __future__ import annotations

import ast
from functools import cache

import pytest

from tests.house import modules, tree_of

PACKAGES = ("supervisor_core", "bot")

THE_DOOR = tuple(f"supervisor_core/host/{name}.py" for name in ("drive_files", "open_folder", "descriptors"))

IN_STATE_DIR = "its own files in the state folder"
IN_CHECKOUT = "files of a checkout, beside what git does in it"
OF_THE_SYSTEM = "files of the operating system"
OF_CONFIG = "the configuration file and what lies beside it"
OF_PEOPLE = "a program of its own, with its own files"

LISTED = {
    "bot/demo/daemon.py": "the demo's own log, in a temporary folder",
    "bot/demo/fleet.py": "the homes of the demo's hosts, in a temporary folder",
    "bot/demo/home.py": "the demo's home, in a temporary folder",
    "bot/demo/tour.py": "files of the demo's worker, in a temporary folder",
    "bot/scopes.py": "the app's manifest, as installed",
    "bot/inbound/notices.py": IN_STATE_DIR,
    "bot/answers/logs.py": "reports in the state folder; those on the drive through the door",
    "supervisor_core/workers/heartbeats/files.py": IN_STATE_DIR,
    "supervisor_core/host/drive.py": "the note of the drive's id in the state folder",
    "supervisor_core/host/logging/events.py": IN_STATE_DIR,
    "supervisor_core/host/files.py": "what all local files go through",
    "supervisor_core/workers/observation.py": IN_STATE_DIR,
    "supervisor_core/web/routes.py": "two files of the package",
    "supervisor_core/fleet/keys.py": "keys on the local disk",
    "supervisor_core/cli/init/command.py": OF_CONFIG,
    "supervisor_core/cli/fleet.py": "keys and certificates beside the configuration",
    "supervisor_core/config/setup/files.py": OF_CONFIG,
    "supervisor_core/fleet/members/setup.py": OF_CONFIG,
    "supervisor_core/fleet/transport/server.py": "configuration and output of the NATS server on the local disk",
    "supervisor_core/code/git/changes.py": IN_CHECKOUT,
    "supervisor_core/code/git/head.py": IN_CHECKOUT,
    "supervisor_core/code/git/worktree.py": "worktrees in the state folder",
    "supervisor_core/storage/audit/chain.py": IN_STATE_DIR,
    "supervisor_core/host/inbox.py": "folders that the door has opened, for thousands of flags",
    "supervisor_core/host/locks.py": IN_STATE_DIR,
    "supervisor_core/host/disks.py": OF_THE_SYSTEM,
    "supervisor_core/host/old_files.py": "a mark in the state folder; folders are handed in open",
    "supervisor_core/processes/output/files.py": "captured output in the state folder",
    "supervisor_core/plugins/loading.py": "the notes of installed distributions",
    "supervisor_core/code/packages/pip.py": "a temporary folder for pip",
    "supervisor_core/workers/pauses.py": "the copies in the state folder",
    "supervisor_core/host/process_facts/linux.py": OF_THE_SYSTEM,
    "supervisor_core/processes/claims.py": "records in the state folder; a program's first line",
    "supervisor_core/processes/launch.py": "captured output in the state folder",
    "supervisor_core/processes/records.py": IN_STATE_DIR,
    "supervisor_core/workers/restarts/limits.py": IN_STATE_DIR,
    "supervisor_core/diagnosis/reports/files.py": "reports in the state folder while the drive is away",
    "supervisor_core/host/logging/excerpts.py": "a worker's own log on a local disk",
    "supervisor_core/host/folder_watch.py": "folders of the configuration; those on the drive through the door",
    "supervisor_core/processes/output/capture.py": "captured output in the state folder",
    "supervisor_core/common/time_zones.py": OF_THE_SYSTEM,
    "supervisor_core/config/setup/imports/cornerstone.py": OF_CONFIG,
    "supervisor_core/config/setup/imports/supervisord.py": "the files that an operator's configuration includes",
    "supervisor_core/config/setup/imports/systemd.py": "the drop-ins and environment files of an operator's unit",
    "supervisor_core/config/setup/imports/formats.py": "the configuration that an operator names",
    "supervisor_core/daemon/replication/backup.py": "the ledger, and a file that an operator names",
    "supervisor_core/daemon/replication/restore.py": "the ledger and its copies, in the state folder",
    "supervisor_core/cli/audit_files.py": "the export that an operator names, removed where it isn't what was written",
    "supervisor_core/cli/dispatcher.py": "/dev/null, after a reader has closed the pipe",
    "supervisor_core/daemon/configuration/last_good.py": "the copy of the configuration in the state folder",
    "supervisor_core/config/slack_settings.py": OF_CONFIG,
    "supervisor_core/config/raw.py": OF_CONFIG,
    "supervisor_core/demo/history.py": "the demo's program, as installed",
    "supervisor_core/demo/program/watcher.py": OF_PEOPLE,
    "supervisor_core/demo/worker.py": OF_PEOPLE,
    "supervisor_core/code/packages/environments.py": IN_STATE_DIR,
    "supervisor_core/diagnosis/reports/parts.py": "folders that the door has opened",
    "supervisor_core/storage/engine.py": IN_STATE_DIR,
    "supervisor_core/code/checkout_lock.py": IN_STATE_DIR,
    "supervisor_core/daemon/configuration/files.py": OF_CONFIG,
    "supervisor_core/daemon/configuration/record.py": IN_STATE_DIR,
    "supervisor_core/daemon/control/client.py": IN_STATE_DIR,
    "supervisor_core/daemon/control/server.py": IN_STATE_DIR,
    "supervisor_core/doctor/host.py": IN_STATE_DIR,
    "supervisor_core/doctor/units.py": OF_THE_SYSTEM,
    "supervisor_core/daemon/environment.py": "the state folder; those on the drive through the door",
    "supervisor_core/host/logging/log.py": "the log in the state folder",
    "supervisor_core/daemon/ownership.py": IN_STATE_DIR,
    "supervisor_core/workers/restarts/history.py": IN_STATE_DIR,
    "supervisor_core/daemon/services/retention.py": "folders in the state folder; those on the drive through the door",
    "supervisor_core/daemon/control/lifecycle.py": IN_STATE_DIR,
    "supervisor_core/daemon/reconciliation/unconfigured_workers.py": IN_STATE_DIR,
    "supervisor_core/workers/output/service.py": "captured output in the state folder",
}

OF_OS = frozenset(
    (
        *("open", "rename", "renames", "replace", "truncate", "unlink", "remove", "mkdir", "makedirs", "rmdir"),
        *("removedirs", "link", "symlink", "listdir", "scandir", "walk", "fwalk", "chmod", "chown", "lchown", "utime"),
        *("mkfifo", "mknod", "readlink"),
    )
)
OF_PATH = frozenset(
    (
        *("read_text", "read_bytes", "write_text", "write_bytes", "unlink", "mkdir", "rmdir", "rename", "touch"),
        *("symlink_to", "hardlink_to", "chmod", "iterdir", "glob", "rglob", "readlink"),
    )
)
OF_SHUTIL = frozenset({"which"})
"""Of `shutil`, what changes nothing."""

OF_OURS = frozenset({"write_atomically", "write_json", "read_json", "read_limited", "read_end", "OpenFolder"})
"""Our own functions that take any path. Those of `drive_files` have the same names, and are used with it in front."""

MODULES_OF_FILES = frozenset({"tempfile", "glob", "fileinput", "mmap"})
NO_FILES = frozenset({"home", "ledger", "_ledger", "connection", "ours", "self"})
"""Objects with a method `open` that aren't paths."""


def uses_of_files(tree: ast.Module) -> set[str]:
    """The names by which a module touches files."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            found |= _of_attribute(node)
        elif isinstance(node, ast.Call):
            found |= _of_call(node)
        elif isinstance(node, ast.ImportFrom):
            found |= _of_import(node)
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name in MODULES_OF_FILES}
            renamed = [alias for alias in node.names if alias.name in {"os", "shutil"} and alias.asname]
            found |= {f"import {alias.name} as {alias.asname}" for alias in renamed}
    return found


def _of_attribute(node: ast.Attribute) -> set[str]:
    owner = _last_name(node.value)
    if owner in {"os", "shutil"}:
        harmless = node.attr not in OF_OS if owner == "os" else node.attr in OF_SHUTIL
        return set() if harmless else {f"{owner}.{node.attr}"}
    if owner == "drive_files":
        return set()
    opens = node.attr == "open" and owner not in NO_FILES
    return {f".{node.attr}"} if opens or node.attr in OF_PATH else set()


def _of_call(node: ast.Call) -> set[str]:
    if isinstance(node.func, ast.Name) and node.func.id == "open":
        return {"open"}
    if not isinstance(node.func, ast.Attribute) or node.func.attr != "replace" or _last_name(node.func.value) == "os":
        return set()
    # `Path.replace` takes one argument, `str.replace` two, `datetime.replace` names
    one = len(node.args) == 1 and not node.keywords and not isinstance(node.args[0], ast.Starred)
    return {".replace"} if one else set()


def _of_import(node: ast.ImportFrom) -> set[str]:
    names = {alias.name for alias in node.names}
    if node.module in {"os", "shutil", "io"}:
        return {f"{node.module}.{name}" for name in names & (OF_OS | {"copyfileobj", "rmtree", "copy", "move"})}
    if node.module in MODULES_OF_FILES:
        return {node.module}
    module = str(node.module)
    ours = module.startswith("supervisor_core.") and module != "supervisor_core.host.drive_files"
    return names & OF_OURS if ours else set()


def _last_name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


@cache
def modules_that_touch_files() -> dict[str, set[str]]:
    """Every module outside of the door that touches files, and how."""
    ours = (module for module in modules() if tree_of(module.path) in PACKAGES and module.path not in THE_DOOR)
    found = {module.path: uses_of_files(module.tree) for module in ours}
    return {path: uses for path, uses in found.items() if uses}


def test_every_module_that_touches_files_by_itself_is_listed_with_its_reason() -> None:
    unlisted = {name: sorted(uses) for name, uses in modules_that_touch_files().items() if name not in LISTED}
    assert not unlisted, "reach the drive through drive_files; for files elsewhere, list the module with its reason"


def test_no_module_is_listed_that_touches_no_files() -> None:
    assert sorted(set(LISTED) - set(modules_that_touch_files())) == []


@pytest.mark.parametrize(
    "source",
    [
        "open(path)",
        "path.open('rb')",
        "path.read_text()",
        "path.write_bytes(b'')",
        "os.open(path, 0)",
        "partial(os.truncate, path)",
        "opener = os.unlink",
        "from os import rename",
        "import os as system",
        "shutil.copyfile(a, b)",
        "from shutil import rmtree",
        "import tempfile",
        "path.replace(other)",
        "path.rename(other)",
        "folder.mkdir()",
        "folder.glob('*')",
        "with os.scandir(folder) as entries: pass",
        "from supervisor_core.host.files import write_json",
        "from supervisor_core.host.open_folder import OpenFolder",
        "from supervisor_core.host.logging.excerpts import read_end",
    ],
)
def test_a_new_module_that_opens_files_by_itself_is_found(source: str) -> None:
    assert uses_of_files(ast.parse(source))


@pytest.mark.parametrize(
    "source",
    [
        "drive_files.write_json(root, path, {}, 0o640)",
        "drive_files.read_end(root, path, 5)",
        "text.replace('a', 'b')",
        "moment.replace(tzinfo=UTC)",
        "ledger.open()",
        "shutil.which('git')",
        "os.environ",
        "from supervisor_core.host.drive_files import open_folder",
    ],
)
def test_what_touches_no_file_or_goes_through_the_door_is_not_found(source: str) -> None:
    assert not uses_of_files(ast.parse(source))
