"""Where to click at Slack: the remedies that more than one check gives."""

from __future__ import annotations

SETTINGS = "https://api.slack.com/apps → your app"
BOT_TOKEN_PLACE = f"{SETTINGS} → OAuth & Permissions → Bot User OAuth Token"
APP_TOKEN_PLACE = f"{SETTINGS} → Basic Information → App-Level Tokens"
COPY_BOT_TOKEN = f"Copy the token that begins with xoxb- ({BOT_TOKEN_PLACE}) into SLACK_BOT_TOKEN."
COPY_APP_TOKEN = (
    f"Copy the token that begins with xapp- ({APP_TOKEN_PLACE} → its name; or Generate Token and Scopes with "
    "connections:write) into SLACK_APP_TOKEN."
)
NEW_BOT_TOKEN = f"Install the app again ({SETTINGS} → Install App), then: {COPY_BOT_TOKEN}"
NEW_APP_TOKEN = f"Make a new one with the scope connections:write ({APP_TOKEN_PLACE} → Generate Token and Scopes)."
SOCKET_MODE_ON = f"Switch it on: {SETTINGS} → Socket Mode → Enable Socket Mode."
WAIT = "Wait so long, then ask doctor again."
REACH = "Check the network, the proxy (HTTPS_PROXY), SLACK_API_URL, and https://slack-status.com."
