"""The section `nas`: the shared drive, if there is one, and the names of the folders on it or in the state folder."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal

from supervisor_core.config.fields import OptionalPath
from supervisor_core.config.sections import Invalid, Section, checked, pattern

LAYOUTS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "plain": {"state": "state", "logs": "logs", "inbox": "inbox", "outbox": "outbox"},
        "cornerstone": {
            "state": "00_STATE",
            "raw": "01_RAW",
            "work": "02_WORK",
            "reference": "03_REFERENCE",
            "publish": "04_PUBLISH",
            "logs": "05_LOGS",
            "inbox": "Worker_Inbox",
            "outbox": "Worker_Outbox",
        },
    }
)
"""The folders of each layout, by the key in `nas.folders`."""

PLAIN, CORNERSTONE = LAYOUTS
FORMER_ROOT = "./var/nas"
"""The default of `nas.root` before there were layouts."""

_FOLDER = (r"(?![/\\~]|[A-Za-z]:)(?!.*(?:^|[/\\])\.\.(?:[/\\]|$)).+", "a path relative to nas.root", "relative path")
Folder = Annotated[str, pattern(*_FOLDER)]
OptionalFolder = Annotated[str, pattern(*_FOLDER, empty=True)]


def _mode(value: object) -> int:
    """File permissions in octal, in quotes or not; the owner always keeps reading and writing."""
    text = getattr(value, "text", value)
    if isinstance(value, int) and not isinstance(value, bool) and text is value:
        return value  # the default, already a mode
    digits = text.removeprefix("0o") if isinstance(text, str) else ""
    mode = int(digits, 8) if digits.isascii() and digits.isdigit() and set(digits) <= set("01234567") else -1
    if not 0 <= mode <= 0o777 or mode & 0o600 != 0o600:
        raise Invalid('must be octal file permissions that let the owner read and write, such as "0640"')
    return mode


class FolderSettings(Section, frozen=True):
    """Names of the folders, relative to `nas.root`. The defaults are those of `nas.layout`; these are for `plain`."""

    state: Folder = LAYOUTS[PLAIN]["state"]
    """Heartbeats and pause flags. This folder, `logs`, `inbox` and `outbox` can't be symbolic links."""
    raw: OptionalFolder = ""
    """Incoming data. Created for your workers; the supervisor doesn't use it. Empty: none."""
    work: OptionalFolder = ""
    """Data in progress. Created for your workers; the supervisor doesn't use it. Empty: none."""
    reference: OptionalFolder = ""
    """Reference data. Created for your workers; the supervisor doesn't use it. Empty: none."""
    publish: OptionalFolder = ""
    """Finished data. Created for your workers; the supervisor doesn't use it. Empty: none."""
    logs: Folder = LAYOUTS[PLAIN]["logs"]
    """Copies of logs and worker output, and reports."""
    inbox: Folder = LAYOUTS[PLAIN]["inbox"]
    """Flags from other programs."""
    outbox: Folder = LAYOUTS[PLAIN]["outbox"]
    """Result files."""


class DriveSettings(Section, frozen=True):
    """The shared drive. Missing folders are created; a missing root is an error, because the drive isn't mounted."""

    root: OptionalPath = None
    """Folder on the drive, or its mount point. Empty: no drive; the folders are in the state folder, which only the
    supervisor's user can use."""
    layout: Literal["plain", "cornerstone"] = "plain"
    """Names of the folders. `plain`: `state`, `logs`, `inbox` and `outbox`. `cornerstone`: `00_STATE`, `01_RAW`,
    `02_WORK`, `03_REFERENCE`, `04_PUBLISH`, `05_LOGS`, `Worker_Inbox` and `Worker_Outbox`."""
    folders: FolderSettings = FolderSettings()
    file_mode: Annotated[int, checked(_mode, "octal mode")] = 0o640
    """Permissions of new files on the drive, in octal. The owner can always read and write."""

    @classmethod
    def prepare(cls, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Fill in the names of the layout, under those that are given."""
        folders = given.get("folders")
        if folders is not None and not isinstance(folders, Mapping):
            return given
        return {**given, "folders": {**layout_of(given), **(folders or {})}}


def layout_of(section: Mapping[str, Any]) -> Mapping[str, str]:
    """The folders of the layout that a section `nas` names; those of the default where it names none or a wrong one."""
    return LAYOUTS.get(str(section.get("layout", PLAIN)), LAYOUTS[PLAIN])
