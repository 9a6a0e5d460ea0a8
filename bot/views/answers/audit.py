"""The audit trail as its reader sees it: an entry for each command, with who asked, who approved, and its end. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bot.views.blocks import Color, Content, actions, card, context, section
from bot.views.buttons import page_button
from bot.views.text import MENTIONABLE, escape, fit, moment, shorten
from supervisor_core.commands.command import Command, Issuer
from supervisor_core.storage.audit.search import AuditFilter
from supervisor_core.storage.audit.trail import TrailEntry

NEWER, OLDER, FILE = "newer", "older", "csv"
"""The words of the buttons between pages, and of the one for the whole file."""

SHORT, MIDDLE, LONG = 60, 110, 200
"""Characters of one fact: ten entries of the longest facts are less than a message holds."""

APPROVERS = 2  # with a name

_UNSTYLED = str.maketrans("", "", "*~`")
"""Words that are not ours are not styled; underscores stay, since labels and ids have some."""


AuditRow = tuple[TrailEntry, str]
"""One entry, and the address of its card."""


@dataclass(frozen=True, slots=True)
class AuditQuery:
    host: str
    command: Command
    wanted: AuditFilter
    nonce: str
    alone: bool = True
    """The answer is private, so mentions notify nobody."""


def audit_page(
    asking: AuditQuery, shown: Sequence[AuditRow], *, newer: str = "", older: str = "", nobody: bool = False
) -> Content:
    """One page. `newer`, `older`: the places of the pages beside it, where there are any; `nobody`: there is no row by
    whom was asked for."""
    title = (
        f"Audit trail of {_data(asking.host, MIDDLE)}{filter_text(asking.command, asking.wanted, alone=asking.alone)}"
    )
    if not shown:
        return _nothing(asking, title, nobody=nobody)
    blocks = [section(_entry(entry, link, alone=asking.alone)) for entry, link in shown]
    pages = ((newer, "Newer"), (older, "Older"), (FILE, "Download CSV"))
    buttons = [page_button(asking.command, asking.nonce, where, text) for where, text in pages if where]
    blocks.append(actions("pages", buttons))
    blocks.append(context("Newest first · `supervisor audit verify` on the host checks the chain"))
    return card(f":clipboard: *{title}*", Color.QUIET, blocks)


def filter_text(command: Command, wanted: AuditFilter, *, alone: bool = True) -> str:
    words = [f"about {_data(command.target, MIDDLE)}"] if command.target else []
    if who := wanted.issuer:
        words.append(f"by <@{who}>" if alone and MENTIONABLE.fullmatch(who) else f"by {_data(who, MIDDLE)}")
    words += [f"only {_data(str(command.params['command']), SHORT)}"] if command.params.get("command") else []
    words += [f"since {moment(wanted.since)}"] if wanted.since else []
    return f", {', '.join(words)}" if words else ""


def _nothing(asking: AuditQuery, title: str, *, nobody: bool) -> Content:
    lines = [f":clipboard: *{title}*: no entries."]
    if nobody:
        lines.append(
            "Nobody with that name is in the audit trail. Mention the person (`by @name`); for somebody outside Slack, "
            "use their audit id, such as `by cli:anna`."
        )
    elif filter_text(asking.command, asking.wanted):
        lines.append("Remove a filter to see more: `/supervisor audit` shows everything.")
    else:
        lines.append("Nothing has happened yet.")
    text = "\n".join(lines)
    return {"text": text, "blocks": [section(text)]}


def _entry(entry: TrailEntry, link: str, *, alone: bool) -> str:
    when = f" · {moment(entry.at)}" if entry.at else ""
    if entry.damaged:
        first = f":warning: *{_data(entry.command, SHORT).capitalize()} was altered*: {_data(entry.damaged, LONG)}"
        return f"{first}\nRecorded: {_data(entry.about, LONG)}{when}"
    sign = {True: ":white_check_mark:", False: ":x:", None: ":raised_hand:"}[entry.well]
    about = f" {_data(entry.about, MIDDLE)}" if entry.about else ""
    first = f"{sign} *{_data(entry.command, SHORT)}*{about}: {_data(entry.outcome, MIDDLE)}{when}"
    facts = [f"requested by {_who(entry.asked, alone=alone)}"]
    if entry.approved:
        names = [_who(each, alone=alone) for each in entry.approved]
        facts.append(f"approved by {shorten(names, APPROVERS)}")
    facts += [f"label: {_data(entry.label, MIDDLE)}"] if entry.label else []
    facts += [f"note: {_data(entry.note, LONG)}"] if entry.note else []
    if link and len(link) <= LONG:
        facts.append(f"<{link}|Open>")
    facts += [f"`{_data(entry.task_id, SHORT)}`"] if entry.task_id else []
    affected = [_data(entry.affected, MIDDLE)] if entry.affected else []
    error = [f"> {_data(entry.error, LONG)}"] if entry.error else []
    return "\n".join([first, " · ".join(facts), *affected, *error])


def _who(issuer: Issuer, *, alone: bool) -> str:
    """Somebody: in Slack by mention where only the asker reads it, else by name and id."""
    door, _, rest = issuer.id.partition(":")
    user = rest.rpartition("/")[2]
    of_slack = door == "slack" and MENTIONABLE.fullmatch(user) is not None
    if of_slack and alone:
        return f"<@{user}>"
    name = _data(issuer.name or (user if of_slack else rest) or issuer.id, SHORT // 2)
    where = f"{door} {user}" if of_slack and issuer.name else door
    return f"{name} ({_data(where, SHORT // 2)})" if rest else name


def _data(text: str, most: int) -> str:
    """Words from elsewhere: they fit, call nobody, and break nothing."""
    return fit(escape(" ".join(text.translate(_UNSTYLED).split())), most)
