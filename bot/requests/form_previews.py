"""The preview inside a form: a choice in the form shows its effect there, before anything is submitted.

Slack gives a view a new hash with each update. A choice begins with an update that always counts, and each further
update names the hash of the one before. So the late answer to an earlier choice is refused by Slack, and dropped.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from bot.inbound.dispatcher import Response, SendNow
from bot.outbound.modals import Modals
from bot.pools import previews
from bot.requests.forms import chosen_channel, read_choice
from bot.views import forms as views
from bot.views.blocks import Json, context, option, section
from bot.views.cards.preview import ON_A_CARD, previews_as_text
from bot.views.form_fields import COMMITS, TARGET, commit_menu
from bot.views.forms import FormContext, LivePreview
from bot.views.text import error_text, unescape
from supervisor_core.code.change_plan import Commit
from supervisor_core.code.preview import PREVIEW_SECONDS
from supervisor_core.commands.catalog import CATALOG
from supervisor_core.commands.command import Command
from supervisor_core.commands.conditions import FactSource
from supervisor_core.commands.definitions import CommandDefinition
from supervisor_core.commands.grammar import render
from supervisor_core.common.errors import SupervisorError, TemporaryError
from supervisor_core.config.load import SupervisorConfig, grammar_context
from supervisor_core.daemon.wiring import CodeReader
from supervisor_core.intake.approvals.observed_state import does_nothing
from supervisor_core.storage.envelopes import StoredEnvelope

MOMENT_SECONDS = 0.5
"""After this time, the commits are shown although the preview isn't ready."""

MOST_SEEN = 20
"""Checkouts whose state a form keeps; a command for more is previewed again in its approval alone."""

WORKING = ":hourglass_flowing_sand: Working out the preview…"
FAILED = (
    ":warning: Something went wrong on our side, and the log has the reason. You can submit the form without a preview."
)
CROWDED = "Too many other previews are running. You can submit the form: the preview is shown again for the approval."

log = logging.getLogger(__name__)

Objection = Callable[[str, Command], Awaitable[str]]
"""Why a user can't send a command; empty if they can."""


@dataclass(frozen=True, slots=True)
class _Shown:
    """One form on somebody's screen, and what has been chosen in it."""

    view_id: str
    user: str
    known: FormContext
    command: Command | None
    """None while a worker or a required value is missing."""
    channel: str
    menu: Json | None = None
    """The menu of commits, once they are known."""
    hash: str = ""
    """The hash of the last update; empty for an update that always counts."""

    @property
    def live(self) -> bool:
        """True if a preview can be shown."""
        return self.command is not None and views.is_live(CATALOG[self.command.name])


class FormPreviews:
    """Builds forms and shows previews in them. `objection` says who mustn't see one."""

    def __init__(
        self,
        modals: Modals,
        config: SupervisorConfig,
        code: CodeReader,
        objection: Objection,
        facts: FactSource | None = None,
    ) -> None:
        self._modals = modals
        self._config = config
        self._grammar = grammar_context(config, facts)
        self._code = code
        self._objection = objection

    def form(
        self,
        definition: CommandDefinition,
        channel: str,
        thread: str | None,
        filled: Command | None = None,
        chosen: str = "",
        preview: LivePreview | None = None,
    ) -> Json:
        """The form of a command. If its preview begins when it opens, it says so."""
        config, grammar = self._config, self._grammar
        if preview is None and views.is_live(definition) and (filled or grammar.default):
            preview = LivePreview([context(WORKING)])
        approval = config.needs_approval(definition.name, "slack")
        return views.command_form(
            definition, grammar, channel, thread, approval=approval, filled=filled, chosen=chosen, preview=preview
        )

    def opened(self, view: Mapping[str, Any], user: str) -> Response:
        """Show the preview in a form that has just opened, if its worker is known."""
        shown = self._shown(view, user)
        if shown is None or not shown.live:
            return Response()
        return Response(rest=partial(self._follow, replace(shown, hash=str(view["hash"]))))

    async def chosen(self, envelope: StoredEnvelope) -> Response:
        """Show the preview of what was just chosen."""
        view = dict(envelope.payload.get("view") or {})
        by_worker = envelope.payload["actions"][0].get("block_id") == TARGET
        menu = _menu(view)
        if by_worker and menu:  # another worker's commits: nothing is chosen among them yet
            view["state"] = {"values": {**view["state"]["values"], menu["block_id"]: {}}}
        shown = self._shown(view, str(envelope.payload["user"]["id"]))
        if shown is None:
            return Response()
        shown = replace(shown, menu=None if by_worker else menu)
        begun = await self._update(shown, LivePreview([context(WORKING)] if shown.live else (), shown.menu))
        return Response(rest=partial(self._follow, begun)) if begun and shown.live else Response()

    def _shown(self, view: Mapping[str, Any], user: str) -> _Shown | None:
        """A form that choices update; None for any other view."""
        known = views.form_context(view)
        definition = CATALOG.get(known.command)
        if view.get("callback_id") != views.FORM or definition is None or not views.is_updated(definition):
            return None
        command = read_choice(view, self._grammar)
        return _Shown(str(view["id"]), user, known, command, chosen_channel(view))

    async def _follow(self, shown: _Shown, _say: SendNow) -> Response:
        """Show the commits and the preview as soon as each is known."""
        command = shown.command
        if command is None:
            return Response()
        if why := await self._objection(shown.user, command):
            await self._update(shown, LivePreview([section(f":no_entry: {why}")], shown.menu))
            return Response()
        deadline = time.monotonic() + PREVIEW_SECONDS
        preview = asyncio.ensure_future(previews(_in_time, partial(self._code.preview, command), deadline))
        menu = asyncio.ensure_future(self._commits(shown, command, deadline))
        try:
            await asyncio.wait({preview, menu}, timeout=MOMENT_SECONDS)
            if not preview.done():
                current = await self._update(
                    replace(shown, menu=await menu), LivePreview([context(WORKING)], await menu)
                )
                if current is None:
                    return Response()
                shown = current
            await self._update(shown, await self._answer(command, preview, await menu))
        finally:
            preview.cancel()
            menu.cancel()
        return Response()

    async def _answer(
        self, command: Command, preview: Awaitable[Sequence[Mapping[str, Any]]], menu: Json | None
    ) -> LivePreview:
        try:
            documents = await preview
        except SupervisorError as error:
            return LivePreview([section(f":warning: {error_text(error)}")], menu)
        except Exception:  # the edge: the form works without a preview
            log.exception("the preview of %s failed", render(command))
            return LivePreview([section(FAILED)], menu)
        blocks = [section("*Preview*"), *(section(text) for text in previews_as_text(documents, ON_A_CARD))]
        states = [str(each.get("state") or "") for each in documents]
        binds = all(each.get("ok") for each in documents) and not all(map(does_nothing, documents))
        if not binds or not all(states) or len(states) > MOST_SEEN:
            return LivePreview(blocks, menu)
        return LivePreview(blocks, menu, ",".join(states), render(command))

    async def _commits(self, shown: _Shown, command: Command, deadline: float) -> Json | None:
        """The menu of this checkout's commits; None if it has no commits to choose from."""
        parameter = next((each for each in CATALOG[command.name].parameters if each.name == COMMITS), None)
        if parameter is None or shown.menu is not None:
            return shown.menu
        try:
            look = partial(self._code.commits, command.workers, parameter.high)
            found: Sequence[Commit] = await previews(_in_time, look, deadline)
        except SupervisorError as error:  # the preview says why
            log.info("the commits of %s can't be listed: %s", command.target, error)
            return None
        except Exception:  # the edge: the form works without a list
            log.exception("the commits of %s can't be listed", command.target)
            return None
        number = int(command.params[COMMITS])
        return commit_menu(parameter, found, number) if found else None

    async def _update(self, shown: _Shown, preview: LivePreview) -> _Shown | None:
        """Update the form. None if it shows a newer choice by now, or Slack can't be reached."""
        known = shown.known
        view = self.form(CATALOG[known.command], known.channel, known.thread, shown.command, shown.channel, preview)
        now = await self._modals.replace({"id": shown.view_id, "hash": shown.hash}, view)
        return replace(shown, hash=str(now["hash"])) if now else None


def seen_in(view: Mapping[str, Any], config: SupervisorConfig) -> str:
    """The states that the preview in a submitted form showed; empty if it was for something else or isn't there."""
    known = views.form_context(view)
    command = read_choice(view, grammar_context(config)) if known.seen else None
    return known.seen if command is not None and render(command) == known.seen_of else ""


def _menu(view: Mapping[str, Any]) -> Json | None:
    """The menu of known commits in this form. Slack escapes the texts of a view when it sends it back."""
    for block in view.get("blocks") or ():
        if "@" in str(block.get("block_id")):
            options = [option(unescape(each["text"]["text"]), each["value"]) for each in block["element"]["options"]]
            first = options[0]
            return {**block, "element": {**block["element"], "options": options, "initial_option": first}}
    return None


def _in_time(look: Callable[[], Any], deadline: float) -> Any:  # noqa: ANN401 (whatever `look` returns)
    """Look, unless it has waited too long for a thread."""
    if time.monotonic() >= deadline:
        raise TemporaryError(CROWDED)
    return look()
