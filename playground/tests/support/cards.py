"""Eight messages as a bot for operators posts them: a headline, and one colored attachment with blocks."""

from __future__ import annotations

from playground.tests.support.blockkit_samples import Json, actions, button, mrkdwn, plain

RED, AMBER, GREEN, BLUE, GRAY = "#c0392b", "#d9822b", "#2e8b57", "#2f6fb0", "#8a8f98"


def section(text: str, **more: object) -> Json:
    return {"type": "section", "text": mrkdwn(text), **more}


def facts(**named: str) -> Json:
    """Facts in two columns."""
    return {
        "type": "section",
        "fields": [mrkdwn(f"*{name.replace('_', ' ')}*\n{value}") for name, value in named.items()],
    }


def buttons(*names: str) -> Json:
    """Buttons, the first of them primary."""
    made = [button(action_id=name.lower(), text=plain(name)) for name in names]
    made[0]["style"] = "primary"
    return actions(*made)


def context(*texts: str) -> Json:
    return {"type": "context", "elements": [mrkdwn(text) for text in texts]}


def card(headline: str, color: str, *blocks: Json) -> Json:
    return {"text": headline, "attachments": [{"color": color, "blocks": list(blocks)}]}


LINK = "<https://example.com/c/4d1f0a2|4d1f0a2>"

CARDS: dict[str, Json] = {
    "crashed": card(
        "🔴 *loader crashed* (exit code 2), restarting in 15 s",
        RED,
        section("`OSError: no space left on device`"),
        facts(
            Since="04:10 · 1 min ago",
            Exit="code 2, 3 s after start",
            Next="Restarting in 15 s · 2nd of 5 this hour",
            Last_change=f"{LINK} update by @ada, 9 min before",
        ),
        section(
            '```loader started\nTraceback (most recent call last):\n  File "load.py", line 7\nOSError: no space```'
        ),
        buttons("Acknowledge", "Roll back 1 commit…", "Restart", "Why?", "Snooze 1h"),
        context("west-2 · team intake · critical · <https://example.com/runbook|Runbook> · alert `k2x9`"),
    ),
    "recovered": card(
        "🟢 *loader recovered* after 4 min",
        GREEN,
        facts(Down="04:10 to 04:14", Cause="`OSError: no space left`", Fixed_by="Restart by @ada", Acknowledged="@ada"),
        context("west-2 · team intake · alert `k2x9`"),
    ),
    "approval": card(
        "✋ *Roll back 2 commits on Vega?* Approval needed",
        AMBER,
        facts(
            Requested_by="@ada",
            Label="bad deploy",
            Reverts="2 commits, 3 files (+7 -21)",
            Restarts="Vega, Altair (same checkout)",
            Dry_run="Applies cleanly",
            Expires="in 12 min · 0 of 1 approval",
        ),
        section(f"• {LINK} Read faster  · Lin Park\n• <https://example.com/c/77ab310|77ab310> Cache twice  · Lin Park"),
        buttons("Approve", "Deny", "Cancel"),
        context("<!subteam^S0ONCALL|@on-call> can approve · full preview in the thread · approval `p7qd`"),
    ),
    "done": card(
        "✅ *Vega updated* to 4d1f0a2",
        GREEN,
        facts(Version=f"`91aa004` → {LINK}", Added="3 commits, 5 files", Took="11 s, 2 s down", Watching="until 04:40"),
        buttons("Undo", "Show log"),
        context("@ada, approved by @sam · label: release"),
    ),
    "failed": card(
        "⚠️ *Update failed and was reverted*, all 2 workers running",
        AMBER,
        section("Both workers run `91aa004` again. Fix the error before the next update."),
        facts(Failed="Altair exited with code 1 after 0.3 s", Down="5 s"),
        section("```KeyError: 'port'  (load.py, line 31)```"),
        buttons("Show full log", "Retry"),
        context("@ada, approved by @sam · label: release · traceback in the thread"),
    ),
    "overview": card(
        "*west-2*: 1 of 3 workers needs attention",
        AMBER,
        section(
            "🔴 *loader*  quarantined 2 min ago after 5 restarts\n`OSError: no space left`",
            accessory=button(action_id="why", text=plain("Why?")),
        ),
        section("🟢 *Vega*  running 2 d · `4d1f0a2` · 61 MB\n⏸️ *Altair*  paused by @ada 8 min ago"),
        buttons("Restart…", "Pause…", "Update…", "Roll back…", "More…"),
        context("`/deploy help` · as of 04:22"),
    ),
    "paused": card(
        "⏸️ *Vega paused* by @ada: maintenance",
        GRAY,
        buttons("Resume", "Status"),
        context("stopped in 0.9 s · stays paused across restarts and updates"),
    ),
    "progress": card(
        "⏳ *Updating Vega*: installing packages (3 of 5)",
        BLUE,
        section("✅ Fetched 3 commits   0.6 s\n✅ Stopped Vega   0.9 s\n⏳ *Installing packages*   8 s\n◻️ Start Vega"),
        context("@ada, approved by @sam · started 04:20"),
    ),
}
