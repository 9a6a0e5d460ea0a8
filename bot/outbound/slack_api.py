"""Calls of the Web API that write messages, files and App Home pages, and that find posted messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, nullcontext
from typing import Any

from aiohttp import ClientSession, ClientTimeout, DummyCookieJar
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.webhook.async_client import AsyncWebhookClient

from bot.outbound.slack_errors import SERVER_ERROR, TOO_MANY_REQUESTS, error_code
from bot.views.blocks import Content
from bot.views.files import Attachment
from supervisor_core.config.slack_credentials import SlackCredentials
from supervisor_core.host.network import DIRECT, Network

EVENT_TYPE = "supervisor_message"
PAGE, PAGES = 200, 5
"""Pages of messages that are searched for one of ours, which was posted a short time ago."""

WEBHOOK_SECONDS = 5
UPLOAD_SECONDS = 30
OK = 200

Address = Mapping[str, str]
"""The address of a message: `channel` and `ts`."""


def web_client(credentials: SlackCredentials, seconds: int) -> AsyncWebClient:
    """The Web API with the bot's token, and a limit for each call. `connect_by` says how it's reached."""
    return AsyncWebClient(
        token=credentials.bot_token.get_secret_value() if credentials.bot_token else None,
        base_url=credentials.api_url,
        timeout=seconds,
        retry_handlers=[],  # The SDK's own retries post twice if only the response was lost.
    )


def connect_by(network: Network, client: AsyncWebClient) -> None:
    """Reach the Web API as the host's network rule says. The SDK's own rule ignores `NO_PROXY`."""
    client.proxy, client.ssl = network.proxy(client.base_url), network.tls_for(client.base_url)


@asynccontextmanager
async def one_session(client: AsyncWebClient) -> AsyncIterator[None]:
    """Let all calls of this client share their connections meanwhile: without a session the SDK connects for each."""
    timeout = ClientTimeout(total=client.timeout)
    async with ClientSession(timeout=timeout, cookie_jar=DummyCookieJar()) as session:
        client.session = session
        try:
            yield
        finally:
            client.session = None


class UploadError(Exception):
    """Slack refuses the bytes of a file."""


class SlackApi:
    """Writes to Slack. Errors are those of the SDK."""

    def __init__(self, client: AsyncWebClient, bot_id: str = "", network: Network = DIRECT) -> None:
        self._client = client
        self._bot_id = bot_id or None
        self._network = network

    async def post(
        self, channel: str, thread_ts: str | None, content: Content, subject: str, *, broadcast: bool = False
    ) -> Address:
        """Post a message and return its place. It carries its subject, by which it can be found again; without one it
        can't be.

        With `broadcast`, a thread reply is also shown in the channel."""
        metadata = {"event_type": EVENT_TYPE, "event_payload": {"subject": subject}} if subject else None
        answer = await self._client.chat_postMessage(
            channel=channel,
            thread_ts=thread_ts,
            reply_broadcast=broadcast or None,
            metadata=metadata,
            unfurl_links=False,
            unfurl_media=False,
            **content,
        )
        return {"channel": str(answer["channel"]), "ts": str(answer["ts"])}

    async def edit(self, address: Address, content: Content) -> None:
        await self._client.chat_update(channel=address["channel"], ts=address["ts"], **_whole(content))

    async def direct(self, user: str) -> str:
        """Return the direct-message channel of a person. Without `im:write`, the person's id is used, and messages
        posted there can't be found again."""
        try:
            answer = await self._client.conversations_open(users=user)
        except SlackApiError as error:
            if error_code(error) != "missing_scope":
                raise
            return user
        return str(answer["channel"]["id"])

    async def answer(self, response_url: str, content: Content, *, replace: bool) -> bool:
        """Answer at a response URL; False if it has expired or doesn't respond."""
        tls = self._network.tls_for(response_url)
        webhook = AsyncWebhookClient(response_url, session=self._client.session, ssl=tls, retry_handlers=[])
        webhook.proxy = self._network.proxy(response_url)
        try:
            async with asyncio.timeout(WEBHOOK_SECONDS):
                answer = await webhook.send(**_whole(content), response_type="ephemeral", replace_original=replace)
        except TimeoutError:  # another way is tried; at worst the answer comes twice
            return False
        if answer.status_code == TOO_MANY_REQUESTS or answer.status_code >= SERVER_ERROR:
            raise SlackApiError("the response couldn't be delivered", answer)  # type: ignore[no-untyped-call]
        return answer.status_code == OK

    async def whisper(self, channel: str, user: str, thread_ts: str | None, content: Content) -> None:
        """Show a message to one person alone, in a channel."""
        await self._client.chat_postEphemeral(channel=channel, user=user, thread_ts=thread_ts, **content)

    async def upload(self, file: Attachment) -> str:
        """Upload a file and return its id. It is invisible until it is shared."""
        data = file.data
        answer = await self._client.files_getUploadURLExternal(filename=file.name, length=len(data))
        url, shared = str(answer["upload_url"]), self._client.session
        async with (
            nullcontext(shared) if shared else ClientSession() as session,
            session.post(
                url,
                data=data,
                proxy=self._network.proxy(url),
                ssl=self._network.tls_for(url) or True,
                timeout=ClientTimeout(total=UPLOAD_SECONDS),
            ) as taken,
        ):
            if taken.status != OK:
                raise UploadError(f"Slack refuses the upload of {file.name}: HTTP {taken.status}")
        return str(answer["file_id"])

    async def share(self, file_id: str, file: Attachment, channel: str, thread_ts: str | None) -> None:
        await self._client.files_completeUploadExternal(
            files=[{"id": file_id, "title": file.title or file.name}],
            channel_id=channel,
            thread_ts=thread_ts,
            initial_comment=file.comment or None,
        )

    async def publish(self, user: str, view: Mapping[str, Any]) -> None:
        """Publish a person's App Home page."""
        await self._client.views_publish(user_id=user, view=dict(view))

    async def find(
        self, channel: str, thread_ts: str | None, subject: str, since: float, file_id: str = ""
    ) -> Address | None:
        """Find the message with this subject or file that the bot posted there; raise `LookupError` if too many
        messages followed to be sure."""
        asked: dict[str, Any] = {"channel": channel, "oldest": f"{since:.6f}", "limit": PAGE}
        cursor = ""
        for _ in range(PAGES):
            asked |= {"include_all_metadata": True, "cursor": cursor}
            if thread_ts:
                answer = await self._client.conversations_replies(ts=thread_ts, **asked)
            else:
                answer = await self._client.conversations_history(**asked)
            for said in answer.get("messages") or ():
                ours = _subject_of(said) == subject and said.get("bot_id") in (self._bot_id, None)
                if file_id in _files_of(said) if file_id else ours:
                    return {"channel": channel, "ts": str(said["ts"])}
            cursor = str((answer.get("response_metadata") or {}).get("next_cursor") or "")
            if not cursor:
                return None
        raise LookupError(f"more than {PAGE * PAGES} messages were posted there since")


def _whole(content: Content) -> Content:
    """The content with all its parts, because an edit keeps what isn't given."""
    return {"blocks": [], "attachments": [], **content}


def _subject_of(message: Mapping[str, Any]) -> str | None:
    metadata = message.get("metadata") or {}
    if metadata.get("event_type") != EVENT_TYPE:
        return None
    subject = (metadata.get("event_payload") or {}).get("subject")
    return str(subject) if subject else None


def _files_of(message: Mapping[str, Any]) -> list[str]:
    return [str(file.get("id")) for file in message.get("files") or ()]
