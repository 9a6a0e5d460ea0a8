"""What the grammar must know of a configuration."""

from __future__ import annotations

from supervisor_core.config.load import SupervisorConfig
from supervisor_core.domain.manual import EXAMPLE
from supervisor_core.domain.targets import GrammarContext


def grammar_context(config: SupervisorConfig) -> GrammarContext:
    """The workers, the teams and the default worker that texts of commands may name."""
    teams = {
        name: tuple(worker.id for worker in config.workers.values() if worker.team == name) for name in config.teams
    }
    return GrammarContext(workers=tuple(config.workers), teams=teams, default_worker=config.supervisor.default_worker)


def example_worker(config: SupervisorConfig) -> str:
    """The worker that shows how commands are typed: the default one, else the first."""
    return config.supervisor.default_worker or next(iter(config.workers), EXAMPLE)
