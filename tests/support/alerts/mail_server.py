"""A mail server on loopback: real SMTP (RFC 5321) with STARTTLS or TLS and a login, in a thread with its own loop.

It's as strict as a real one: no mail before the encryption, none without the login, and lines end in CR LF.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage

from tests.support.waiting import wait_until


@dataclass
class MailServer:
    """What came. `replies` replaces the answers to commands: `{"RCPT": "450 4.2.1 later"}`."""

    tls: ssl.SSLContext
    implicit: bool = False
    """True for TLS from the first byte."""
    starttls: bool = True
    login: tuple[str, str] | None = None
    replies: dict[str, str] = field(default_factory=dict)
    messages: list[EmailMessage] = field(default_factory=list)
    envelopes: list[tuple[str, list[str]]] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    """The verbs, in their order."""
    port: int = 0

    @property
    def url(self) -> str:
        return f"{'smtps' if self.implicit else 'smtp'}://localhost:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, ssl.SSLError, asyncio.IncompleteReadError):
            await _Session(self, reader, writer).run()
        writer.close()


class _Session:
    """One connection."""

    def __init__(self, server: MailServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.server, self.reader, self.writer = server, reader, writer
        self.encrypted, self.known = server.implicit, server.login is None
        self.sender, self.recipients = "", list[str]()

    async def run(self) -> None:
        await self.say("220 localhost ESMTP")
        while line := await self.reader.readline():
            assert line.endswith(b"\r\n"), line
            verb, _, rest = line.decode("ascii").strip().partition(" ")
            self.server.commands.append(verb.upper())
            if reply := self.server.replies.get(verb.upper()):
                await self.say(reply)
            elif verb.upper() == "QUIT":
                await self.say("221 bye")
                return
            else:
                await self.answer(verb.upper(), rest)

    async def answer(self, verb: str, rest: str) -> None:
        if verb in ("EHLO", "HELO"):
            offers = ["STARTTLS"] if self.server.starttls and not self.encrypted else []
            offers += ["AUTH PLAIN"] if self.server.login and self.encrypted else []
            await self.say("\r\n".join(f"250-{each}" for each in ["localhost", *offers]) + "\r\n250 SIZE 1000000")
        elif verb == "STARTTLS":
            await self.say("220 go ahead")
            await self.writer.start_tls(self.server.tls)
            self.encrypted = True
        elif not self.encrypted:
            await self.say("530 5.7.0 Must issue a STARTTLS command first")
        elif verb == "AUTH":
            await self.check_login(rest)
        elif not self.known:
            await self.say("530 5.7.0 Authentication required")
        else:
            await self.take_mail(verb, rest)

    async def check_login(self, rest: str) -> None:
        _, user, password = base64.b64decode(rest.removeprefix("PLAIN ")).decode().split("\0")
        self.known = (user, password) == self.server.login
        await self.say("235 2.7.0 welcome" if self.known else f"535 5.7.8 not {user}:{password}")

    async def take_mail(self, verb: str, rest: str) -> None:
        address = rest.partition("<")[2].partition(">")[0]
        if verb == "MAIL":
            self.sender, self.recipients = address, []
            await self.say("250 ok")
        elif verb == "RCPT":
            self.recipients.append(address)
            await self.say("250 ok")
        elif verb == "DATA" and self.recipients:
            await self.say("354 go on")
            raw = await self.reader.readuntil(b"\r\n.\r\n")
            message = message_from_bytes(raw.removesuffix(b".\r\n"), policy=policy.SMTP)
            assert isinstance(message, EmailMessage)
            assert not message.defects, message.defects
            assert max(map(len, raw.split(b"\r\n"))) <= 998, "a line is too long"
            self.server.messages.append(message)
            self.server.envelopes.append((self.sender, self.recipients))
            await self.say("250 queued")
        else:
            await self.say("503 5.5.1 bad sequence" if verb in ("DATA", "RSET") else "502 5.5.2 unknown")

    async def say(self, line: str) -> None:
        self.writer.write(f"{line}\r\n".encode())
        await self.writer.drain()


@contextmanager
def a_mail_server(server: MailServer) -> Iterator[MailServer]:
    """It listens on a free port until the test is over."""
    loop = asyncio.new_event_loop()
    stopping = asyncio.Event()

    async def run() -> None:
        tls = server.tls if server.implicit else None
        async with await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=tls) as listening:
            server.port = listening.sockets[0].getsockname()[1]
            await stopping.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(run(),), daemon=True)
    thread.start()
    try:
        wait_until(lambda: server.port, 10, "it listens")
        yield server
    finally:
        loop.call_soon_threadsafe(stopping.set)
        thread.join(10)
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
