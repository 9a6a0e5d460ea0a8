"""What a host says is shown on its hub with the addresses of its workers."""

from __future__ import annotations

import pytest

from supervisor_core.commands.addresses import command_with_address, details_with_addresses, with_addresses, workers_in

HOST = "web-1"


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("fetcher is running (pid 12). indexer wasn't started: worker of the drive", None),
        (
            "To stop every copy: pause fetcher. Then: resume fetcher",
            "To stop every copy: pause web-1/fetcher. Then: resume web-1/fetcher",
        ),
        ("Said: the worker can't be restarted: the drive is away: worker worker", None),
        (
            "To restore the previous code: undo fetcher task_1.",
            "To restore the previous code: undo web-1/fetcher task_1.",
        ),
        ("Fix it, then: restart the. The drive is away", "Fix it, then: restart web-1/the. The drive is away"),
        ("Try: restart fetcher-2, undo fetcher.py, pause web-1/fetcher", None),
    ],
)
def test_only_the_targets_of_commands_in_a_sentence_are_addresses(said: str, shown: str | None) -> None:
    """A worker may be called `the`, or `worker`: that's no reason to replace the word."""
    assert with_addresses(said, HOST, ["fetcher", "indexer", "the", "worker"]) == (shown or said)


@pytest.mark.parametrize(
    ("worker", "typed", "shown"),
    [
        ("fetcher", "restart fetcher", "restart web-1/fetcher"),
        ("restart", "restart restart", "restart web-1/restart"),
        ("4711", "kill 4711", "kill 4711"),
        ("task_1", "undo fetcher task_1", "undo fetcher task_1"),
    ],
)
def test_a_command_has_the_address_where_its_target_is(worker: str, typed: str, shown: str) -> None:
    assert command_with_address(typed, HOST, worker) == shown


def test_details_name_the_workers_of_a_checkout_by_their_addresses_and_data_stays() -> None:
    details = {
        "message": "Updated. fetcher is running (pid 12)",
        "label": "fetcher hotfix",
        "checkout": "/srv/fetcher",
        "before": "fetcher",
        "workers": {"fetcher": {"new_pid": 12, "error": None}, "indexer": {"error": "indexer exited (code 1)"}},
        "failed": {"indexer": "indexer exited (code 1)"},
    }
    assert workers_in(details) == {"fetcher", "indexer"}
    assert details_with_addresses(details, HOST, workers_in(details)) == {
        "message": "Updated. fetcher is running (pid 12)",
        "label": "fetcher hotfix",
        "checkout": "/srv/fetcher",
        "before": "fetcher",
        "workers": {
            "web-1/fetcher": {"new_pid": 12, "error": None},
            "web-1/indexer": {"error": "indexer exited (code 1)"},
        },
        "failed": {"web-1/indexer": "indexer exited (code 1)"},
    }
