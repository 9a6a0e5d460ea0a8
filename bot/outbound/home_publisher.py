"""Publishing somebody's page: as all is by then, only in the place of the one before, and not at all where it would
say the same again.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from slack_sdk.errors import SlackApiError

from bot.access.people import UnverifiedError
from bot.outbound.home_content import PageComposer
from bot.outbound.rate_limits import PUBLISH, Pace, home_gates, is_requested
from bot.outbound.slack_api import SlackApi
from bot.outbound.slack_errors import error_code
from bot.pools import quick
from supervisor_core.common import crashpoints
from supervisor_core.common.text import canonical_json
from supervisor_core.storage import outbox
from supervisor_core.storage.outbox import PendingMessage
from supervisor_core.storage.store import Ledger

CONFLICT = "hash_conflict"
MALFORMED = frozenset({"invalid_arguments", "invalid_blocks", "view_too_large"})
# Nobody can be shown a page there. Whoever opens theirs orders it anew.
NOBODY = frozenset({"not_enabled", "user_not_found", "invalid_user_id", "duplicate_external_id"})

log = logging.getLogger(__name__)


class HomePublisher:
    """Publishes one page at a time. What keeps it from that is raised."""

    def __init__(self, ledger: Ledger, speaker: SlackApi, pace: Pace, compose: PageComposer) -> None:
        self._ledger = ledger
        self._speaker = speaker
        self._pace = pace
        self._compose = compose

    async def tell(self, message: PendingMessage) -> None:
        """Bring one page up to date. `UnverifiedError` while Slack does not say who its reader is."""
        try:
            composed = await self._compose(message)
        except UnverifiedError as error:
            self._pace.hold(PUBLISH, error.seconds or None)
            raise
        mark = _mark(composed.view)
        if mark == message.address.get("mark") and not is_requested(message):
            await self._told(message, message.address)
            return
        try:
            said = await self._published(message, composed.view)
        except SlackApiError as error:
            word = error_code(error)
            if word in MALFORMED and composed.view is not composed.plain:
                log.error("the page of %s is refused (%s); it is told in words", message.subject, word)  # noqa: TRY400
                said = await self._published(message, composed.plain)
            elif word in MALFORMED | NOBODY:
                await self._dropped(message, f"{message.subject} can't be shown a page: {word}")
                return
            else:
                raise
        await self._told(message, {"hash": said, "mark": mark, "at": message.payload.get("at")})

    async def _published(self, message: PendingMessage, view: Mapping[str, Any]) -> str:
        """Its hash. The hash of the one before keeps a call that was long on its way from taking the place of a newer
        one; where ours is not the last, as after a crash, this one is the newest all the same."""
        self._pace.used(home_gates(message))
        crashpoints.reach("home.publish:before")
        try:
            said = await self._speaker.publish(message.subject, view, message.address.get("hash"))
        except SlackApiError as error:
            if error_code(error) != CONFLICT:
                raise
            self._pace.used(home_gates(message))
            said = await self._speaker.publish(message.subject, view, None)
        crashpoints.reach("home.publish:after")
        return said

    async def _told(self, message: PendingMessage, address: Mapping[str, Any]) -> None:
        """Its row is done, unless it was ordered anew meanwhile; what stands there is kept all the same."""
        told = await quick(self._ledger.step, outbox.sent(message, datetime.now(UTC), address))
        if not told:
            await asyncio.wrap_future(
                self._ledger.submit(lambda connection: outbox.addressed(connection, message, address))
            )

    async def _dropped(self, message: PendingMessage, reason: str) -> None:
        log.warning("%s", reason)
        await quick(self._ledger.step, outbox.dropped(message, reason, datetime.now(UTC)))


def _mark(view: Mapping[str, Any]) -> str:
    """What a page says, but for when it was made."""
    said = [block for block in view["blocks"] if block.get("block_id") != "footer"]
    return hashlib.sha256(canonical_json(said).encode()).hexdigest()
