"""A reset forgets what was said, and keeps the people whom everybody meets."""

from __future__ import annotations

from slack_playground import Playground


async def test_those_who_are_there_from_the_beginning_are_there_after_a_reset(slack: Playground) -> None:
    world = slack.server.world
    world.settle = lambda: world.add_user("ann") and None
    world.add_user("bob")
    world.reset()
    names = [user.name for user in world.workspace.users.values()]
    assert "ann" in names
    assert "bob" not in names
