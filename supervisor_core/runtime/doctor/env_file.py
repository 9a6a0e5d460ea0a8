"""The check of the file of variables beside the configuration: it holds tokens and passwords."""

from __future__ import annotations

import os
import stat

from supervisor_core.config import SupervisorConfig
from supervisor_core.config.raw import ENV_FILE
from supervisor_core.runtime.doctor.checks import Check

NAME = "env_file"


def look(config: SupervisorConfig) -> Check:
    """Nobody else may read or change it; a group that may read it, such as the service's own, is only a warning."""
    path = config.path.with_name(ENV_FILE)
    if not path.is_file():
        return Check(NAME, True, "there is none, so all variables come from the environment")
    mode = stat.S_IMODE(path.stat().st_mode)
    if os.name != "posix":
        return Check(NAME, True, f"{path} is there; who may read it isn't looked at on this system")
    remedy = f"chmod 600 {path}"
    if mode & (stat.S_IRWXO | stat.S_IWGRP):
        what = "read" if mode & stat.S_IROTH else "changed" if mode & (stat.S_IWOTH | stat.S_IWGRP) else "used"
        return Check(NAME, False, f"{path} can be {what} by others (mode {mode:04o}), and holds secrets", remedy)
    if mode & stat.S_IRWXG:
        return Check(NAME, True, f"{path} can be read by its group (mode {mode:04o}), and holds secrets", remedy)
    return Check(NAME, True, f"{path} is its owner's alone")
