"""The names of the folders: two layouts, single names over them, and a drive from before there were layouts."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisor_core.common.errors import ConfigError
from supervisor_core.config.load import SupervisorConfig, load_supervisor_config
from supervisor_core.host.drive import DriveUnavailable
from supervisor_core.workers.context import open_drive

WORKER = "workers: {W: {command: [x]}}\n"
CORNERSTONE = {
    "state": "00_STATE",
    "raw": "01_RAW",
    "work": "02_WORK",
    "reference": "03_REFERENCE",
    "publish": "04_PUBLISH",
    "logs": "05_LOGS",
    "inbox": "Worker_Inbox",
    "outbox": "Worker_Outbox",
}


def load(folder: Path, text: str) -> SupervisorConfig:
    path = folder / "config.yaml"
    path.write_text(text + WORKER)
    return load_supervisor_config(path, environ={})


def names(config: SupervisorConfig) -> dict[str, str]:
    return {name: path.relative_to(config.drive_root).as_posix() for name, path in config.folders.items()}


@pytest.mark.parametrize("text", ["", "nas:\n", "nas: {}\n", "nas: {root: ''}\n", "nas: {folders: {}}\n"])
def test_without_a_drive_the_plain_folders_are_in_the_state_folder(tmp_path: Path, text: str) -> None:
    config = load(tmp_path, f"supervisor: {{state_dir: s}}\n{text}")
    assert config.nas.root is None
    assert config.folders == {name: tmp_path / "s" / name for name in ("state", "logs", "inbox", "outbox")}


def test_the_numbered_folders_are_a_layout(tmp_path: Path) -> None:
    assert names(load(tmp_path, "nas: {root: drive, layout: cornerstone}\n")) == CORNERSTONE


def test_single_folders_go_over_the_layout(tmp_path: Path) -> None:
    given = "{inbox: 05_LOGS/Worker_Inbox, raw: ''}"
    config = load(tmp_path, f"nas: {{root: drive, layout: cornerstone, folders: {given}}}\n")
    rest = {name: folder for name, folder in CORNERSTONE.items() if name != "raw"}
    assert names(config) == {**rest, "inbox": "05_LOGS/Worker_Inbox"}
    assert names(load(tmp_path, "nas: {folders: {raw: in}}\n"))["raw"] == "in"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("nas: {layout: conerstone}", "nas.layout must be one of plain, cornerstone, not 'conerstone'; did you mean"),
        ("nas: {layout: [plain]}", "nas.layout must be text"),
        ("nas: {folders: {state: ''}}", "nas.folders.state must be a path relative to nas.root"),
        ("nas: {folders: 3}", "nas.folders must be a section"),
        (
            "nas: {layout: cornerstone, folders: {raw: worker_inbox}}",
            "nas.folders.raw is the same folder as inbox",
        ),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, f"{text}\n")
    assert problem in str(caught.value)


class TestBeforeLayouts:
    """A drive with the numbered folders, and a configuration that doesn't say so."""

    def test_a_drive_with_one_of_them_is_not_used_until_the_layout_is_set(self, tmp_path: Path) -> None:
        for name in ("00_STATE", "05_LOGS", "Worker_Inbox", "Worker_Outbox"):
            found = tmp_path / name / name
            found.mkdir(parents=True)
            problem = refusal(load(tmp_path, f"nas: {{root: {name}}}\n"))
            assert problem == f"{found} exists, but nas.layout isn't set. Add layout: cornerstone to the section nas."
            for layout in ("cornerstone", "plain"):
                assert refusal(load(tmp_path, f"nas: {{root: {name}, layout: {layout}}}\n")) == ""

    def test_the_former_default_root_is_found_too(self, tmp_path: Path) -> None:
        (tmp_path / "var/nas/Worker_Inbox").mkdir(parents=True)
        assert refusal(load(tmp_path, "")).endswith(
            " Add nas: {root: ./var/nas, layout: cornerstone} to the configuration."
        )
        assert refusal(load(tmp_path, "nas: {root: ./var/nas, layout: cornerstone}\n")) == ""


def refusal(config: SupervisorConfig) -> str:
    """Why the drive of this configuration isn't used; empty if it is."""
    try:
        open_drive(config).check()
    except DriveUnavailable as error:
        return str(error)
    return ""
