"""Slack's SDK unmodified, async with aiohttp: commands, clicks, modals, Home, mentions, uploads, ephemeral messages."""

from __future__ import annotations

import pytest
from slack_sdk.errors import SlackApiError

from playground.tests.support import apps
from slack_playground import NotSeen, Playground


async def test_the_story_of_a_deploy_reads_as_it_is_told(slack: Playground):
    app = apps.async_app(slack)

    @app.command("/deploy")
    async def deploy(ack, say, command):
        await ack()
        await say(text=f"Deploy {command['text']}?", blocks=apps.BUTTONS)

    @app.action("approve")
    async def approve(ack, body, client):
        await ack()
        text = f"done, approved by <@{body['user']['id']}>"
        await client.chat_update(channel=body["channel"]["id"], ts=body["message"]["ts"], text=text)

    async with apps.running(slack, app):
        operator, approver = slack.user("operator"), slack.user("approver")
        card = await operator.slash("/deploy web")
        await card.button("Approve").click(as_=approver)
        await card.becomes("done")
        await slack.channel("ops").shows(1, "message")
        await card.shows("approved by @approver")
        await card.button("Approve").is_gone()


async def test_a_button_with_confirm_asks_first_and_a_no_does_nothing(slack: Playground):
    app = apps.async_app(slack)

    @app.command("/deploy")
    async def deploy(ack, say):
        await ack()
        await say(text="Deploy?", blocks=apps.BUTTONS)

    @app.action("deny")
    async def deny(ack, respond):
        await ack()
        await respond(text="denied", replace_original=True)

    async with apps.running(slack, app):
        card = await slack.user("operator").slash("/deploy web")
        with pytest.raises(NotSeen, match="asks for confirmation"):
            await card.button("Deny").click()
        await card.button("Deny").click(confirm=False)
        await card.shows("Deploy web?")
        await card.button("Deny").click(confirm=True)
        await card.becomes("denied")


async def test_a_modal_shows_mistakes_is_updated_and_stacked_and_closed(slack: Playground):
    app = apps.async_app(slack)
    seen: list[str] = []

    @app.command("/form")
    async def form(ack, body, client):
        await ack()
        await client.views_open(trigger_id=body["trigger_id"], view=apps.modal("First"))

    @app.view("form")
    async def submitted(ack, view):
        text = view["state"]["values"]["label"]["text"]["value"]
        seen.append(text)
        if text == "bad":
            await ack(response_action="errors", errors={"label": "not that"})
        elif text == "update":
            await ack(response_action="update", view=apps.modal("Second"))
        elif text == "push":
            await ack(response_action="push", view=apps.modal("On top", "top"))
        else:
            await ack()

    @app.view("top")
    async def top(ack):
        await ack(response_action="clear")

    async with apps.running(slack, app):
        operator = slack.user("operator")
        await operator.slash("/form")
        modal = await operator.modal("First")
        assert "errors" in await modal.submit(expect="required")
        await modal.fill("Label", "bad")
        assert (await modal.submit())["errors"] == {"label": "not that"}
        await modal.shows("not that")
        await modal.fill("Label", "update")
        await modal.submit()
        await modal.shows("Second")
        await modal.fill("Label", "push")
        await modal.submit()
        upper = await operator.modal("On top")
        await upper.fill("Label", "x")
        await upper.submit()
        await operator.has_no_modal()
        assert seen == ["bad", "update", "push"]


async def test_a_fourth_modal_and_a_trigger_used_twice_are_refused(slack: Playground):
    app = apps.async_app(slack)
    errors: list[str] = []

    @app.command("/form")
    async def form(ack, body, client):
        await ack()
        await client.views_open(trigger_id=body["trigger_id"], view=apps.modal("1"))
        answers = [client.views_open(trigger_id=body["trigger_id"], view=apps.modal("again"))]
        errors.extend([(await _error(answer)) for answer in answers])

    @app.view("form")
    async def submitted(ack, body, client):
        await ack(response_action="push", view=apps.modal("more"))

    async with apps.running(slack, app):
        operator = slack.user("operator")
        await operator.slash("/form")
        for title in ("1", "more", "more"):
            modal = await operator.modal(title)
            await modal.fill("Label", "x")
            stack = slack.server.world.workspace.modals[operator.id]
            if len(stack) < 3:
                await modal.submit()
        with pytest.raises(NotSeen, match="Slack refused the answer"):
            await (await operator.modal("more")).submit()
        await slack.eventually(lambda: errors, "no error")
        assert errors == ["exchanged_trigger_id"]


async def test_the_home_is_published_and_its_buttons_work(slack: Playground):
    app = apps.async_app(slack)

    @app.event("app_home_opened")
    async def opened(event, client):
        await client.views_publish(user_id=event["user"], view={"type": "home", "blocks": apps.BUTTONS})

    @app.action("approve")
    async def approve(ack, body, client):
        await ack()
        blocks = [{"type": "header", "text": {"type": "plain_text", "text": "Approved"}}]
        await client.views_update(
            view_id=body["view"]["id"], hash=body["view"]["hash"], view={"type": "home", "blocks": blocks}
        )

    async with apps.running(slack, app):
        home = await slack.user("operator").opens_home()
        await home.button("Approve").click()
        await home.shows("Approved")


async def test_a_file_is_uploaded_in_three_steps_and_can_be_fetched(slack: Playground):
    app = apps.async_app(slack)

    @app.command("/report")
    async def report(ack, client, command):
        await ack()
        await client.files_upload_v2(
            channel=command["channel_id"], content="a,b\n1,2\n", filename="report.csv", initial_comment="here"
        )

    async with apps.running(slack, app):
        card = await slack.user("operator").slash("/report")
        await card.shows("here")
        await card.shows("report.csv")
        file = (await card.message())["files"][0]
        assert file["size"] == 8


async def test_a_failure_prints_the_conversation_as_a_person_saw_it(slack: Playground):
    slack.patience = 0.1
    app = apps.async_app(slack)

    @app.command("/deploy")
    async def deploy(ack, say):
        await ack()
        await say(text="Deploy?", blocks=apps.BUTTONS)

    async with apps.running(slack, app):
        card = await slack.user("operator").slash("/deploy web")
        await card.message()
        with pytest.raises(NotSeen) as failure:
            await card.becomes("done")
    assert "Deploy web?" in str(failure.value) or "Deploy *web*?" in str(failure.value)
    assert "[Approve] [Deny]" in str(failure.value)


async def _error(call) -> str:
    try:
        await call
    except SlackApiError as error:
        return str(error.response["error"])
    return ""
