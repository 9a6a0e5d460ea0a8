"""Refusals, each in two texts: for the person alone, and for the audit trail and cards. Pure.

The first mentions those who have the right; the second mentions nobody.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum

from bot.views.text import escape
from supervisor_core.config.fields import ON_CALL

MOST, FIRST = 8, 3
"""Up to this many names are listed; of more only the first few, with the number of the rest: a refusal fits into one
section."""

RefusalText = tuple[str, str]

ADMIN = "An administrator of the supervisor"


class Membership(Enum):
    """A person's relation to this workspace. All but full members count only by their own id."""

    FULL = ""
    GUEST = "a guest in this workspace"
    STRANGER = "from another workspace"


@dataclass(frozen=True, slots=True)
class RequiredRole:
    command: str
    role: str
    keys: Sequence[str]
    told: Sequence[str]
    votes: bool = False
    cancels: bool = False
    """Cancels another person's command, which is a right of its approvers."""

    @property
    def by_list(self) -> bool:
        """True where a list of the command's own decides, and no role."""
        return self.keys[0].startswith("slack.access.commands.")


WITHOUT_SLACK = "On the host, `supervisor send` works without Slack."

UNKNOWN: RefusalText = (
    f"Slack couldn't identify you, so nothing was done. Try again in a moment. {WITHOUT_SLACK}",
    "Slack couldn't identify the person",
)
UNVERIFIED: RefusalText = (
    f"Slack couldn't confirm who you are, so nothing was done. Try again in a moment. {WITHOUT_SLACK}",
    "Slack couldn't confirm who the person is",
)
"""Slack doesn't answer who somebody is, or which groups they are in."""

UNVERIFIABLE: RefusalText = (
    (
        f"Your rights can't be verified, because Slack doesn't let the bot ask, so nothing was done. {ADMIN} can run "
        "`supervisor doctor`, which names the missing scope or the revoked token."
    ),
    "the rights can't be verified: Slack doesn't let the bot ask",
)
GUEST_VOTES: RefusalText = (
    "Guests can't approve or deny. A full member of the workspace has to decide.",
    "guests can't approve or deny",
)


def too_old(limit: timedelta) -> RefusalText:
    minutes = f"{limit.total_seconds() / 60:g} minutes"
    words = f"This request is more than {minutes} old, so nothing was done. The supervisor or Slack was unavailable."
    return f"{words} Try again if you still want it.", f"the request was more than {minutes} old"


def inactive(*, bot: bool) -> RefusalText:
    return (
        "Only people with an active account can run commands and approve.",
        "a bot has no rights" if bot else "a deactivated account has no rights",
    )


def elsewhere(channel: str, places: Sequence[str], *, votes: bool = False) -> RefusalText:
    there, what = (" or where the command was posted", "Approvals") if votes else ("", "Commands")
    words = f"{what} are accepted only in {_some([f'<#{place}>' for place in places])}{there}."
    return (
        f"{words} {ADMIN} can add this channel to `slack.channels` in the configuration.",
        f"{what.lower()} aren't accepted in {channel or 'no channel'} (slack.channels)",
    )


def lacking(wanted: RequiredRole, only: Sequence[str], kind: Membership, *, circles: bool) -> RefusalText:
    """A right is missing: for these workers `only`, where it is there for others. `circles`: a group or channel could
    give it."""
    sentences = [_is_for(wanted, only, _some([_mention(name) for name in wanted.told]) or "nobody yet")]
    if only:
        sentences.append("Nothing was done for the other workers either.")
    if kind is not Membership.FULL:
        sentences.append(f"You are {kind.value}, so you have to be listed by your own user id.")
    keys = _some([f"`{escape(key)}`" for key in wanted.keys], "or")
    sentences.append(f"{ADMIN} can add you to {keys} in the configuration.")
    if circles:
        sentences.append("Members of the groups or channels listed there can use it too.")
    what = f"approving {wanted.command} is" if wanted.votes else f"{wanted.command} is"
    what = f"canceling another person's {wanted.command} is" if wanted.cancels else what
    whom = "the people listed for it" if wanted.by_list else wanted.role
    workers = f"; missing for {_some(only)}" if only else ""
    whose = f"; they are {kind.value}" if kind is not Membership.FULL else ""
    return " ".join(sentences), f"{what} limited to {whom} ({_some(wanted.keys, 'or')}){workers}{whose}"


def _is_for(wanted: RequiredRole, only: Sequence[str], who: str) -> str:
    what = f"Approving `{escape(wanted.command)}`" if wanted.votes else f"`{escape(wanted.command)}`"
    what = f"Canceling another person's `{escape(wanted.command)}`" if wanted.cancels else what
    if wanted.by_list:
        return f"{what} is limited to {who}."
    if only:
        workers = _some([f"*{escape(worker)}*" for worker in only])
        return f"{what} on {workers} is limited to {wanted.role}: {who}."
    return f"{what} is limited to {wanted.role}: {who}."


def _mention(name: str) -> str:
    if name == "*":
        return "all full members of this workspace"
    if name.startswith(("C", "G")):
        return f"members of <#{name}>"
    if name.startswith(ON_CALL):
        return "the person on call"
    return f"<!subteam^{name}>" if name.startswith("S") else f"<@{name}>"


def _some(names: Sequence[str], word: str = "and") -> str:
    if len(names) > MOST:
        return f"{', '.join(names[:FIRST])} and {len(names) - FIRST} more"
    return f" {word} ".join(part for part in (", ".join(names[:-1]), *names[-1:]) if part)
