"""The handlers of all requests, built for each configuration."""

from __future__ import annotations

from dataclasses import dataclass

from slack_sdk.web.async_client import AsyncWebClient

from bot.access.checks import AccessChecks, AllowedCommands
from bot.access.rules import APPROVALS
from bot.answers import answer_handlers
from bot.outbound.channel_health import ChannelHealth
from bot.outbound.content import MessageComposer
from bot.outbound.home import HomePages
from bot.outbound.modals import Modals
from bot.requests.alert_actions import AlertActions, AlertCommands
from bot.requests.commands import CommandRequests, HeldCommands, HostAnswers, TargetFacts
from bot.requests.form_actions import FormActions
from bot.requests.home_actions import HomeActions
from bot.requests.introductions import Introductions
from bot.requests.rolling import RollingCommands
from bot.requests.schedules import ScheduleCommands
from bot.requests.votes import PendingApprovals, Votes
from supervisor_core.alerts.actions import AlertService
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.fleet.hosts import Hosts
from supervisor_core.intake.approvals.service import Approvals
from supervisor_core.intake.rolling.service import RollingChanges
from supervisor_core.intake.schedules.service import Schedules
from supervisor_core.intake.submission import Gateway
from supervisor_core.storage.store import Ledger


@dataclass(frozen=True, slots=True)
class RequestHandlers:
    access: AccessChecks
    commands: CommandRequests
    votes: Votes
    alerts: AlertActions
    schedules: ScheduleCommands
    forms: FormActions
    home: HomeActions
    introductions: Introductions
    pages: HomePages
    held: HeldCommands


def build_handlers(
    config: SupervisorConfig,
    client: AsyncWebClient,
    ledger: Ledger,
    approvals: Approvals,
    hosts: Hosts,
    access: AccessChecks,
    composer: MessageComposer,
    introductions: Introductions,
    channels: ChannelHealth,
) -> RequestHandlers:
    allowed, alerts = AllowedCommands(config, access), AlertService(ledger)
    pending_approvals = PendingApprovals(ledger, composer, allowed)
    queries = {
        **HostAnswers(config, ledger, allowed, hosts).handlers(),
        **answer_handlers(config, ledger, hosts, composer, allowed, channels),
        **RollingCommands(RollingChanges(ledger), hosts.wake).handlers(),
        **AlertCommands(config, ledger, alerts).handlers(),
        APPROVALS: pending_approvals.answer,
    }
    schedules = ScheduleCommands(config, Schedules(ledger), access, queries)
    facts = TargetFacts(hosts.statuses, hosts.versions)
    commands = CommandRequests(
        config=config,
        gateway=Gateway(config, ledger, approvals, facts),
        find=hosts.find_commit,
        access=access,
        handlers={**queries, **schedules.handlers()},
        submitted=hosts.wake,
        facts=facts,
    )
    modals = Modals(client)
    forms = FormActions(modals, config, hosts, access, allowed, commands, facts)
    return RequestHandlers(
        access=access,
        commands=commands,
        votes=Votes(approvals, access, modals, pending_approvals),
        alerts=AlertActions(alerts, access),
        schedules=schedules,
        forms=forms,
        home=HomeActions(ledger, forms, config, facts),
        introductions=introductions,
        pages=HomePages(config, access, allowed, composer, ledger, hosts),
        held=HeldCommands(ledger, access, hosts.wake),
    )
