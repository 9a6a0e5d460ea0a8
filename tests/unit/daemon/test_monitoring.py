"""Monitoring is paused and its audit row is written in one transaction, or neither."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from sqlalchemy import select

from supervisor_core.commands.command import Issuer
from supervisor_core.daemon.services.agent import SupervisorAgent
from supervisor_core.daemon.services.monitoring import set_monitoring
from supervisor_core.storage.tables import audit_log
from tests.support.daemon.agents import Troubled, at_once, row_of
from tests.support.storage.ledger_rows import opened

ANNA = Issuer("cli:anna", "anna")
REFUSE = "CREATE TRIGGER refusing BEFORE INSERT ON audit_log_t BEGIN SELECT RAISE(ABORT, 'not here'); END"


@pytest.mark.parametrize("is_full", [False, True])
def test_a_pause_and_its_audit_row_are_written_together_or_not_at_all(tmp_path: Path, is_full: bool) -> None:
    with opened(tmp_path) as real:
        ledger, name = Troubled(real), real.supervisor_id

        async def story() -> None:
            agent = SupervisorAgent(name, ledger, heartbeat_seconds=0, elsewhere=at_once)
            await agent.start()
            if is_full:
                ledger.away = OSError("not here: no space left")
            else:
                ledger.write(lambda connection: connection.exec_driver_sql(REFUSE))
            with pytest.raises(Exception, match="not here"):
                await set_monitoring(agent, lambda: None, ANNA, paused=True)
            assert (agent.status, row_of(ledger, name).status, agent.monitoring_paused) == ("ACTIVE", "ACTIVE", False)

        asyncio.run(story())
        assert ledger.read(lambda connection: connection.execute(select(audit_log)).all()) == []
