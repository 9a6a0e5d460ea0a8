"""The file of the configuration that is being applied, damaged while no daemon ran."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from supervisor_core.common.service import Blocking
from supervisor_core.daemon.configuration.record import CONFIG_CHANGE_FILE, ConfigRecord
from supervisor_core.daemon.configuration.service import ConfigService
from supervisor_core.daemon.reconciliation.reconciler import Reconciler
from supervisor_core.workers.context import DaemonContext
from tests.support.intake.handler_hosts import FakeHost
from tests.support.storage.forwarded_rows import opened

WHOLE = '"version": 2, "owner": "", "path": "", "begun_at": "", "changes": [], "told": ""'


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        '{"config_id": "c1"}',
        f'{{"config_id": "c1", {WHOLE}, "moves": "none"}}',
        f'{{"config_id": "c1", {WHOLE}, "moves": [1]}}',
    ],
)
def test_a_damaged_file_keeps_no_daemon_from_its_start(tmp_path: Path, content: str) -> None:
    host = FakeHost(tmp_path).host
    (host.config.state_dir / CONFIG_CHANGE_FILE).write_text(content)
    with opened(host.config.state_dir) as ledger:
        parts, blocking = DaemonContext(host, ledger), Blocking(1)
        record = ConfigRecord(parts, Reconciler(ConfigService(host.config, blocking), context=parts), blocking)
        asyncio.run(record.resume())
        record.follow()
