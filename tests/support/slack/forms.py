"""Forms as people fill them in: the view as Slack hands it over when it is sent."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Mapping
from types import SimpleNamespace
from typing import Any, cast

from slack_sdk.web.async_client import AsyncWebClient

from bot.access.checks import AccessChecks, AllowedCommands
from bot.access.people import People
from bot.access.rules import AccessRules, configured_ids
from bot.inbound.dispatcher import Response
from bot.outbound.modals import Modals
from bot.requests.commands import CommandRequests
from bot.requests.form_actions import FormActions
from bot.requests.request import Request
from bot.views.forms import VALUE
from slack_playground.world import elements
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.fleet.hosts import Hosts


def form_actions(
    client: AsyncWebClient,
    config: SupervisorConfig,
    team: str,
    handle: Callable[[Request], Awaitable[Response]],
    modals: Modals | None = None,
) -> FormActions:
    """Forms that show nobody a preview; what is sent is handled by `handle`."""

    def nothing(*_words: object) -> tuple[Any, ...]:
        raise AssertionError("nobody may look")

    access = AccessChecks(
        People(client, {who for who, _ in configured_ids(config.slack, config.teams)}),
        AccessRules(config.slack, config.teams, config.workers, team),
    )
    commands = cast("CommandRequests", SimpleNamespace(handle=handle))
    hosts = cast("Hosts", SimpleNamespace(preview=nothing, commits=nothing))
    return FormActions(modals or Modals(client), config, hosts, access, AllowedCommands(config, access), commands)


KEYS = {"users_select": "selected_user", "conversations_select": "selected_conversation"}


def filled(view: Mapping[str, Any], said: Mapping[str, str | None] | None = None) -> dict[str, Any]:
    """This view with what it begins with in its fields, and what was said on top; None empties a field."""
    made = {**copy.deepcopy(dict(view)), "id": "V1", "hash": "1.a"}
    values = {}
    for block in made["blocks"]:
        if block["type"] == "input":
            state = elements.start(block["element"])
            if said is not None and block["block_id"] in said:
                state = _state(block["element"], said[block["block_id"]])
            values[block["block_id"]] = {VALUE: state}
    return {**made, "state": {"values": values}}


def _state(element: Mapping[str, Any], said: str | None) -> dict[str, Any]:
    kind = element["type"]
    option = {"text": {"type": "plain_text", "text": "whatever it is called"}, "value": said}
    if kind in elements.ONE_OPTION:
        return {"type": kind, "selected_option": option if said else None}
    if kind == "checkboxes":
        return {"type": kind, "selected_options": [option] if said else []}
    return {"type": kind, KEYS.get(kind, "value"): said}
