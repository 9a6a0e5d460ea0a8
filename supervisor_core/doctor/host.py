"""The checks of the host: clock, plug-ins, shared drive, state folder, environment file, workers and checkouts."""

from __future__ import annotations

import ctypes
import os
import stat
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path

from supervisor_core.code.git import Git, GitError, NoCheckoutError, git_version
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.config.raw import ENV_FILE
from supervisor_core.daemon.environment import FOLDERS
from supervisor_core.doctor.checks import CheckResult
from supervisor_core.host import drive_files
from supervisor_core.host.disks import remote_kind
from supervisor_core.host.permissions import user_name
from supervisor_core.plugins.loading import load_plugins
from supervisor_core.workers import observation as observing
from supervisor_core.workers.context import open_doors, open_drive

CLOCK = "clock"
SKEW_SECONDS = 5.0
TIMEX_BYTES, TIME_ERROR = 512, 5
"""The size of Linux's `struct timex` and more, and what `adjtimex` returns for a clock that isn't synchronized."""
HALF_A_SECOND = 0.5
"""A Date header is cut to the second; on average that much is missing from it."""


def compare_clock(date: str, asked: datetime, answered: datetime, whose: str = "Slack") -> CheckResult:
    """Compare with the Date header of an answer; the way there and back is allowed for."""
    try:
        told = parsedate_to_datetime(date)
    except ValueError:
        return check_clock(f"{whose} sent no time")
    theirs = told.replace(tzinfo=UTC).timestamp() if told.tzinfo is None else told.timestamp()
    way = (answered - asked).total_seconds() / 2
    skew = (asked.timestamp() + way) - (theirs + HALF_A_SECOND)
    if abs(skew) <= SKEW_SECONDS + HALF_A_SECOND + way:
        return CheckResult(CLOCK, True, f"within {SKEW_SECONDS:g} s of {whose}'s clock")
    direction = "ahead of" if skew > 0 else "behind"
    remedy = "Run: timedatectl set-ntp true (Windows: w32tm /resync)."
    return CheckResult(CLOCK, False, f"{abs(skew):.0f} s {direction} {whose}'s clock", remedy)


def check_clock(no_comparison: str) -> CheckResult:
    """The clock where there is no other one to compare it with: by the kernel's own state, which time servers set on
    Linux."""
    state = -1
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # the zeros change nothing
            state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.create_string_buffer(TIMEX_BYTES))
    if state >= 0 and state != TIME_ERROR:
        return CheckResult(CLOCK, True, f"synchronized with a time server; not compared with Slack's: {no_comparison}")
    if state < 0:
        message = f"not compared with another: {no_comparison}; and this system doesn't tell its state"
        return CheckResult(CLOCK, True, message, "Check it by hand: timedatectl (Windows: w32tm /stripchart).")
    message = f"not synchronized with a time server, says the kernel; not compared with another: {no_comparison}"
    return CheckResult(CLOCK, True, message, "Run: timedatectl set-ntp true. A virtual machine may follow its host.")


PLUGINS = "plugins"


def check_plugins(_config: SupervisorConfig) -> CheckResult:
    """The commands of plug-ins. A broken one fails here, and stops nothing."""
    found = load_plugins()
    origins = {each.extension.origin for each in found.commands if each.extension is not None}
    if found.problems:
        remedy = "Update, repair or uninstall the plug-in, then restart the daemon."
        return CheckResult(PLUGINS, False, " ".join(found.problems), remedy)
    names = ", ".join(each.name for each in found.commands)
    return CheckResult(PLUGINS, True, f"{', '.join(sorted(origins))}: {names}" if names else "none installed")


DRIVE = "drive"


def check_drive(config: SupervisorConfig) -> CheckResult:
    """The root, and below it each folder that is there; those that are missing are made by the first run."""
    root = config.drive_root
    door = open_drive(config)
    door.check()
    if config.nas.root is None and not root.exists():
        return CheckResult(DRIVE, True, f"none; the first run creates the folders in {root}")
    troubles, missing = door.call(_walk, root, config.folders)
    if troubles:
        remedy = f"Give this user write access (nas.folders names the folders in {root})."
        return CheckResult(DRIVE, False, "; ".join(troubles), remedy)
    yet = f"; created when needed: {', '.join(missing)}" if missing else ""
    return CheckResult(DRIVE, True, f"{root} is writable{yet}")


def _walk(root: Path, folders: Mapping[str, Path]) -> tuple[list[str], list[str]]:
    troubles, missing = [], []
    for name, folder in folders.items():
        try:
            if name in FOLDERS:
                drive_files.probe(root, folder)
            elif drive_files.is_file(root, folder):
                troubles.append(f"{folder} isn't a folder")
        except FileNotFoundError:
            missing.append(folder.name)
        except NotADirectoryError as error:
            troubles.append(f"{folder} isn't a folder ({error.strerror})")
        except OSError as error:
            troubles.append(f"{folder} isn't writable: {error.strerror}")
    if missing and not os.access(root, os.W_OK | os.X_OK):
        troubles.append(f"{root} isn't writable, so {', '.join(missing)} can't be created")
    return troubles, missing


STATE_FOLDER = "state_dir"
OTHERS = 0o077
SETTING = "Set supervisor.state_dir to a folder on a local disk."


def check_state_folder(config: SupervisorConfig) -> CheckResult:
    folder = config.state_dir
    if config.nas.root is not None and folder.is_relative_to(config.nas.root):
        return CheckResult(STATE_FOLDER, False, f"{folder} is on the shared drive, {config.nas.root}", SETTING)
    there = folder
    while not os.path.lexists(there) and there != there.parent:
        there = there.parent
    kind = remote_kind(there.resolve())
    if kind:
        return CheckResult(STATE_FOLDER, False, f"{folder} is on a network drive ({kind})", SETTING)
    if there != folder:
        if there.is_dir() and os.access(there, os.W_OK | os.X_OK):
            return CheckResult(STATE_FOLDER, True, f"{folder} doesn't exist yet; the first run creates it")
        remedy = f"Create {folder} for this user, or set supervisor.state_dir to a folder where this user can write."
        return CheckResult(STATE_FOLDER, False, f"{folder} can't be created: {there} isn't writable", remedy)
    if not folder.is_dir():
        return CheckResult(STATE_FOLDER, False, f"{folder} isn't a folder", SETTING)
    status = folder.stat()
    if os.name == "posix":
        if status.st_uid != os.geteuid():
            remedy = f"Run as that user: sudo -u {user_name(status.st_uid)} supervisor doctor"
            return CheckResult(STATE_FOLDER, False, f"{folder} is owned by {user_name(status.st_uid)}", remedy)
        if stat.S_IMODE(status.st_mode) & OTHERS:
            message = f"{folder} is accessible to other users (mode {stat.S_IMODE(status.st_mode):04o}, not 0700)"
            return CheckResult(STATE_FOLDER, False, message, f"Run: chmod 700 {folder}")
    try:
        with tempfile.TemporaryFile(dir=folder, prefix=".doctor.") as file:
            file.write(b"x")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        remedy = "Free space on the disk, or give this user write access."
        return CheckResult(STATE_FOLDER, False, f"{folder} isn't writable: {error.strerror}", remedy)
    return CheckResult(STATE_FOLDER, True, f"{folder} is private and writable")


ENV_FILE_CHECK = "env_file"


def check_env_file(config: SupervisorConfig) -> CheckResult:
    """Nobody else may read or change it; a group that may read it, such as the service's own, is only a warning."""
    path = config.path.with_name(ENV_FILE)
    if not path.is_file():
        return CheckResult(ENV_FILE_CHECK, True, "no .env file; all variables come from the environment")
    mode = stat.S_IMODE(path.stat().st_mode)
    if os.name != "posix":
        return CheckResult(ENV_FILE_CHECK, True, f"{path} exists; its permissions aren't checked on this system")
    remedy = f"Run: chmod 600 {path}"
    if mode & (stat.S_IRWXO | stat.S_IWGRP):
        what = "read" if mode & stat.S_IROTH else "changed" if mode & (stat.S_IWOTH | stat.S_IWGRP) else "used"
        return CheckResult(
            ENV_FILE_CHECK, False, f"{path} holds secrets and can be {what} by other users (mode {mode:04o})", remedy
        )
    if mode & stat.S_IRWXG:
        return CheckResult(
            ENV_FILE_CHECK, True, f"{path} holds secrets and can be read by its group (mode {mode:04o})", remedy
        )
    return CheckResult(ENV_FILE_CHECK, True, f"{path} is private")


WORKERS = "workers"
REMEDY = "A worker is a single process. Stop the extra copies."


def check_workers(config: SupervisorConfig) -> CheckResult:
    """A worker that doesn't run is for `status` to tell; two processes of one are damage in the making."""
    workers = list(config.workers.values())
    looked = observing.observe_workers(open_doors(config), workers, beside=True) if workers else []
    doubtful = [f"{each.worker.id}: {each.verdict.reason}" for each in looked if each.found.others]
    if doubtful:
        return CheckResult(WORKERS, False, " ".join(doubtful), REMEDY)
    running = [f"{each.worker.id} (pid {each.found.identity.pid})" for each in looked if each.found.identity]
    return CheckResult(WORKERS, True, f"one process each: {', '.join(running)}" if running else "none running")


GIT = "git"
ALL_SECONDS = 15.0
"""For all checkouts together."""


def check_git(config: SupervisorConfig) -> CheckResult:
    """A worker whose code is in no checkout is no failure, unless the configuration says that there is one."""
    version = git_version()
    troubles: list[tuple[str, str]] = []
    without: list[str] = []
    remarks = [f"git {version}"]
    each_seconds = ALL_SECONDS / max(len(config.workers), 1)
    for worker in config.workers.values():
        try:
            state = Git(worker.code.path).state(each_seconds)
        except NoCheckoutError as error:
            if ("workers", worker.id, "code", "path") in config.explicit_settings:
                remedy = f"Clone the code there, or correct workers.{worker.id}.code.path."
                troubles.append((f"{worker.id}: {error.message}", remedy))
            else:
                without.append(worker.id)
            continue
        except GitError as error:
            troubles.append((f"{worker.id}: {error.message}", error.remedy or "Check it with git."))
            continue
        if state.under_way:
            remedy = f"Run: git -C {state.top} {state.under_way} --abort (or --continue)."
            troubles.append((f"{worker.id}: a {state.under_way} in {state.top} is unfinished", remedy))
        if state.lock is not None:
            troubles.append((f"{worker.id}: {state.lock} exists", "If no git is running there, delete the file."))
        if state.branch != worker.code.branch:
            current, branch = f"branch {state.branch}" if state.branch else "no branch", worker.code.branch
            message = f"the code of {worker.id} is on {current}, not {branch}, so it can't be updated or rolled back"
            remedy = f"Run: git -C {state.top} switch {branch}. Or correct workers.{worker.id}.code.branch."
            if ("workers", worker.id, "code") in config.explicit_settings:
                troubles.append((message, remedy))
            else:
                remarks.append(message)
        if state.changes:
            remarks.append(f"the code of {worker.id} has uncommitted changes: a change of the same files is refused")
    if without:
        remarks.append(f"no checkout, so no update or rollback: {', '.join(without)}")
    if troubles:
        return CheckResult(GIT, False, "; ".join(message for message, _ in troubles), troubles[0][1])
    return CheckResult(GIT, True, "; ".join(remarks))
