"""The installation of the app: in a workspace, in a workspace of an Enterprise organization, or organization-wide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slack_playground.values import Json, PlaygroundError

WORKSPACE, ORGANIZATION = "workspace", "organization"
ENTERPRISE_ID, ENTERPRISE_NAME, ENTERPRISE_DOMAIN = "E0PLAYGROUND", "Playground Inc.", "playground-inc"


@dataclass(frozen=True)
class Installation:
    """Adds to payloads and answers what Slack adds on Enterprise; nothing for a workspace of its own."""

    team_id: str
    enterprise: str = ""
    """`workspace`: the app is in one workspace of an organization; `organization`: it's installed organization-wide."""

    def __post_init__(self) -> None:
        """Refuse another word."""
        if self.enterprise not in ("", WORKSPACE, ORGANIZATION):
            words = f"`enterprise` is {WORKSPACE!r} or {ORGANIZATION!r}, not {self.enterprise!r}."
            raise PlaygroundError("bad_value", words)

    @property
    def enterprise_id(self) -> str | None:
        """The organization's id, if there is one."""
        return ENTERPRISE_ID if self.enterprise else None

    @property
    def org_wide(self) -> bool:
        """True if one installation covers all workspaces of the organization."""
        return self.enterprise == ORGANIZATION

    def auth_test(self, team: Json) -> Json:
        """The identity of the installation; an organization-wide one names the organization as its team."""
        told: Json = {"team": team["name"], "team_id": self.team_id}
        if self.org_wide:
            told = {"team": ENTERPRISE_NAME, "team_id": ENTERPRISE_ID}
        if self.enterprise:
            told["enterprise_id"] = ENTERPRISE_ID
        return told | {"is_enterprise_install": self.org_wide}

    def team(self, team: Json) -> Json:
        """The workspace, as team.info tells it."""
        if not self.enterprise:
            return team
        return team | {
            "enterprise_id": ENTERPRISE_ID,
            "enterprise_name": ENTERPRISE_NAME,
            "enterprise_domain": ENTERPRISE_DOMAIN,
        }

    def installed(self, team: Json) -> Json:
        """The place of the installation, as oauth.v2.access tells it."""
        return {
            "team": None if self.org_wide else {"id": self.team_id, "name": team["name"]},
            "enterprise": {"id": ENTERPRISE_ID, "name": ENTERPRISE_NAME} if self.enterprise else None,
            "is_enterprise_install": self.org_wide,
        }

    def event(self, bot_user: str) -> Json:
        """The fields around an event."""
        authorization = {
            "enterprise_id": self.enterprise_id,
            "team_id": None if self.org_wide else self.team_id,
            "user_id": bot_user,
            "is_bot": True,
            "is_enterprise_install": self.org_wide,
        }
        told: Json = {"context_team_id": self.team_id, "context_enterprise_id": self.enterprise_id}
        told |= {"enterprise_id": ENTERPRISE_ID} if self.enterprise else {}
        return told | {"team_id": self.team_id, "authorizations": [authorization]}

    def command(self) -> Json:
        """The fields of a slash command."""
        told = {"team_id": self.team_id, "is_enterprise_install": str(self.org_wide).lower()}
        names = {"enterprise_id": ENTERPRISE_ID, "enterprise_name": ENTERPRISE_NAME}
        return told | (names if self.enterprise else {})

    def interaction(self, team: Json, *, in_channel: bool) -> Json:
        """The fields of a click or a form; organization-wide, a form and a global shortcut have no team."""
        told: Json = {"enterprise": None, "is_enterprise_install": self.org_wide}
        told["team"] = {"id": team["id"], "domain": team["domain"]}
        if self.enterprise:
            told["enterprise"] = {"id": ENTERPRISE_ID, "name": ENTERPRISE_NAME}
            told["team"] |= {"enterprise_id": ENTERPRISE_ID, "enterprise_name": ENTERPRISE_NAME}
        if self.org_wide and not in_channel:
            told["team"] = None
        return told

    def user(self, user: Mapping[str, object], teams: Sequence[str]) -> Json:
        """A user, as users.info tells it.

        On Enterprise a member's workspaces are in `enterprise_user`, and `team_id` may be missing. Here it is missing
        unless it names another workspace than this one.
        """
        told = dict(user)
        if not self.enterprise:
            return told
        if told["team_id"] == self.team_id:
            del told["team_id"]
        names = {"id": user["id"], "enterprise_id": ENTERPRISE_ID, "enterprise_name": ENTERPRISE_NAME}
        flags = {"is_admin": user["is_admin"], "is_owner": user["is_owner"]}
        return told | {"enterprise_user": {**names, **flags, "teams": list(teams)}}
