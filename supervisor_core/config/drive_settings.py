"""The section `nas`: the shared drive, if there is one, and the names of the folders on it or in the state folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

from supervisor_core.common.sections import BeforeValidator, Field, Invalid, Section
from supervisor_core.config.fields import Kind, OneOf, OptionalPath, matching

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

_FOLDER = r"(?![/\\~]|[A-Za-z]:)(?!.*(?:^|[/\\])\.\.(?:[/\\]|$)).+"
_check_folder = matching(_FOLDER, "a path relative to nas.root")

Folder = Annotated[str, BeforeValidator(_check_folder), Kind("relative path")]
OptionalFolder = Annotated[
    str, BeforeValidator(lambda value: "" if value == "" else _check_folder(value)), Kind("relative path")
]


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


class FolderSettings(Section):
    """Names of the folders, relative to `nas.root`. The defaults are those of `nas.layout`; these are for `plain`."""

    state: Folder = Field(
        default=LAYOUTS[PLAIN]["state"],
        description="Heartbeats and pause flags. This folder, `logs`, `inbox` and `outbox` can't be symbolic links.",
    )
    raw: OptionalFolder = Field(
        default="", description="Incoming data. Created for your workers; the supervisor doesn't use it. Empty: none."
    )
    work: OptionalFolder = Field(
        default="",
        description="Data in progress. Created for your workers; the supervisor doesn't use it. Empty: none.",
    )
    reference: OptionalFolder = Field(
        default="", description="Reference data. Created for your workers; the supervisor doesn't use it. Empty: none."
    )
    publish: OptionalFolder = Field(
        default="", description="Finished data. Created for your workers; the supervisor doesn't use it. Empty: none."
    )
    logs: Folder = Field(default=LAYOUTS[PLAIN]["logs"], description="Copies of logs and worker output, and reports.")
    inbox: Folder = Field(default=LAYOUTS[PLAIN]["inbox"], description="Flags from other programs.")
    outbox: Folder = Field(default=LAYOUTS[PLAIN]["outbox"], description="Result files.")


class DriveSettings(Section):
    """The shared drive. Missing folders are created; a missing root is an error, because the drive isn't mounted."""

    root: OptionalPath = Field(
        default=None,
        description="Folder on the drive, or its mount point. Empty: no drive; the folders are in the state folder, "
        "which only the supervisor's user can use.",
    )
    layout: Annotated[Literal["plain", "cornerstone"], BeforeValidator(OneOf((*LAYOUTS,)))] = Field(
        default="plain",
        description="Names of the folders. `plain`: `state`, `logs`, `inbox` and `outbox`. `cornerstone`: `00_STATE`, "
        "`01_RAW`, `02_WORK`, `03_REFERENCE`, `04_PUBLISH`, `05_LOGS`, `Worker_Inbox` and `Worker_Outbox`.",
    )
    folders: FolderSettings = Field(default_factory=FolderSettings)
    file_mode: Annotated[int, BeforeValidator(_mode), Kind("octal mode")] = Field(
        default=0o640,
        description="Permissions of new files on the drive, in octal. The owner can always read and write.",
    )

    @classmethod
    def prepare(cls, given: Any) -> Any:  # noqa: ANN401 (a document may hold anything)
        """Fill in the names of the layout, under those that are given."""
        if not isinstance(given, Mapping):
            return given
        folders = given.get("folders")
        if folders is not None and not isinstance(folders, Mapping):
            return given
        return {**given, "folders": {**layout_of(given), **(folders or {})}}


def layout_of(section: Mapping[str, Any]) -> Mapping[str, str]:
    """The folders of the layout that a section `nas` names; those of the default where it names none or a wrong one."""
    return LAYOUTS.get(str(section.get("layout", PLAIN)), LAYOUTS[PLAIN])


def forgotten_folders(settings: DriveSettings, former_root: Path) -> Mapping[Path, str]:
    """The folders that this configuration meant before there were layouts, each with the remedy.

    Empty where the layout is set. Where one of these folders exists, the names of `plain` would forget what is in it:
    flags, pauses, heartbeats.
    """
    if "layout" in settings.model_fields_set:
        return {}
    root, remedy = settings.root, "Add layout: cornerstone to the section nas."
    if root is None:
        root, remedy = former_root, f"Add nas: {{root: {FORMER_ROOT}, layout: cornerstone}} to the configuration."
    unset = [name for name, folder in LAYOUTS[PLAIN].items() if getattr(settings.folders, name) == folder]
    return {root / LAYOUTS[CORNERSTONE][name]: remedy for name in unset}
