"""What a host says is shown on its hub with the addresses of its workers."""

from __future__ import annotations

import pytest

from supervisor_core.commands.addresses import details_with_addresses, with_addresses, workers_in

HOST = "web-1"


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("stopping fetcher (pid 26368)", "stopping web-1/fetcher (pid 26368)"),
        (
            "fetcher is running (pid 12). indexer wasn't started",
            "web-1/fetcher is running (pid 12). web-1/indexer wasn't started",
        ),
        (
            "To restore the previous code: undo fetcher task_1.",
            "To restore the previous code: undo web-1/fetcher task_1.",
        ),
        ("“fetcher”, fetcher's", "“web-1/fetcher”, web-1/fetcher's"),
        ("/srv/fetcher/main.py, fetcher.py, the-fetcher, fetcher-2, web-1/fetcher", None),
    ],
)
def test_workers_are_named_by_their_addresses_and_paths_and_longer_names_stay(said: str, shown: str | None) -> None:
    assert with_addresses(said, HOST, ["fetcher", "indexer"]) == (shown or said)


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
        "message": "Updated. web-1/fetcher is running (pid 12)",
        "label": "fetcher hotfix",
        "checkout": "/srv/fetcher",
        "before": "fetcher",
        "workers": {
            "web-1/fetcher": {"new_pid": 12, "error": None},
            "web-1/indexer": {"error": "web-1/indexer exited (code 1)"},
        },
        "failed": {"web-1/indexer": "web-1/indexer exited (code 1)"},
    }
