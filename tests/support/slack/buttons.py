"""A button that somebody holds on to: pressed later than it is there, and as often as one likes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from slack_playground.testing.cards import Card
from slack_playground.testing.people import Person


async def pressing(card: Card, name: str, person: Person) -> Callable[[], Awaitable[str]]:
    """A press of this button as it stands there now, to be made later and as often as one likes."""
    element = card.button(name)
    surface, found = await element._there(person.user)  # noqa: SLF001 (the button is kept, as a slow client keeps it)
    acting = element._slack.server.acting  # noqa: SLF001

    async def press() -> str:
        outcome = await acting.act(surface, found, None, confirmed=True)
        return str(outcome.outcome)

    return press
