"""The entrance of the Web API: checks faults, token, scopes, arguments and rates, then runs the handler."""

from __future__ import annotations

import asyncio
import json
import time
from email.utils import formatdate
from http import HTTPStatus

from aiohttp import web

from slack_playground.values import Json, SlackError
from slack_playground.web_api.call import Call
from slack_playground.web_api.methods import ANYTHING, HANDLERS, METHODS, Method
from slack_playground.world.faults import HTTP_KINDS, Fault
from slack_playground.world.grants import Grants
from slack_playground.world.world import World

ALWAYS = ("team_id",)  # a token of a whole organization names the workspace with any method
GARBAGE = '{"ok": tru'
HTML = "<html><body><h1>{status} {words}</h1></body></html>"


class Dispatcher:
    def __init__(self, world: World, grants: Grants, *, strict: bool = False) -> None:
        self._world, self._grants = world, grants
        self._strict = strict

    async def handle(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["method"]
        started = time.monotonic()
        fault = self._world.faults.strike(name, *HTTP_KINDS)
        arguments: Json = {}
        status, headers = HTTPStatus.OK, {}
        try:
            token, arguments = await _read(request, METHODS.get(name))
            await asyncio.sleep(self._world.latency)
            struck = await strike(request, fault)
            if struck is not None:
                self._note(name, arguments, struck.status, None, started, fault)
                return struck
            if fault and fault.kind == "error":
                raise SlackError(str(fault["error"]))
            answer = self._answer(name, request, token, arguments)
            if fault and fault.kind == "answer":
                answer |= fault["fields"]
        except SlackError as error:
            answer = error.to_json()
            if wait := answer.pop("retry_after", None):
                status, headers = HTTPStatus.TOO_MANY_REQUESTS, {"Retry-After": str(wait)}
        self._note(name, arguments, status, answer, started, fault)
        if fault and fault.kind == "drop_after":
            return drop(request)
        app = self._world.app
        headers["Date"] = formatdate(self._world.clock.now(), usegmt=True)
        headers["X-OAuth-Scopes"] = ",".join(sorted(app.scopes))
        if name in METHODS:
            headers["X-Accepted-OAuth-Scopes"] = ",".join(METHODS[name].scopes)
        return web.json_response(answer, status=status, headers=headers)

    def _note(
        self, name: str, args: Json, status: int, answer: Json | None, started: float, fault: Fault | None
    ) -> None:
        ms = round((time.monotonic() - started) * 1000, 1)
        words: Json = {"method": name, "arguments": args, "status": int(status), "answer": answer, "ms": ms}
        self._world.journal.write("api", **words, **({"fault": fault.kind} if fault else {}))

    def _answer(self, name: str, request: web.Request, token: str, arguments: Json) -> Json:
        method = METHODS.get(name)
        if method is None:
            raise SlackError("unknown_method", req_method=name)
        self._check_token(method, request, token)
        call = Call(self._world, self._grants, name, arguments)
        call.scope(*method.scopes)
        self._check_arguments(name, method, arguments)
        wait = self._world.rates.method(name, method.tier)
        if wait:
            raise SlackError("ratelimited", retry_after=wait)
        return HANDLERS[name](call)

    def _check_token(self, method: Method, request: web.Request, token: str) -> None:
        world = self._world
        if method.any_token:
            return
        if not token:
            raise SlackError("not_authed")
        if token not in (world.bot_token, world.app_token):
            raise SlackError("invalid_auth")
        if (token == world.app_token) is not method.app_token:
            raise SlackError("not_allowed_token_type")
        if world.revoked:
            raise SlackError("token_revoked")
        if method.app_token and request.method != "POST":
            raise SlackError("insecure_request")

    def _check_arguments(self, name: str, method: Method, arguments: Json) -> None:
        """Slack ignores an argument that the method doesn't have; strictly it's refused, else there is a warning."""
        missing = [each for each in method.required if arguments.get(each) is None]
        if missing:
            raise SlackError("invalid_arguments", *(f"missing required field: {each}" for each in missing))
        known = (*method.required, *method.optional, *ALWAYS)
        unknown = [] if ANYTHING in known else [each for each in arguments if each not in known]
        words = [f"{name} has no argument {each!r}; it has {', '.join(known) or 'none'}" for each in unknown]
        if words and self._strict:
            raise SlackError("invalid_arguments", *words)
        for each in unknown:
            self._world.warn(f"{name} has no argument {each!r}. Slack ignores it.")


async def _read(request: web.Request, method: Method | None) -> tuple[str, Json]:
    """The token and the arguments, from the address, a form or JSON."""
    arguments: Json = dict(request.query)
    kind = request.content_type
    authorization = request.headers.get("Authorization", "")
    token = authorization.removeprefix("Bearer ").strip() if authorization.startswith("Bearer ") else ""
    if request.method == "POST" and kind == "application/json":
        try:
            text = await request.text()
            body = json.loads(text) if text.strip() else {}
        except (ValueError, LookupError):  # no JSON, no UTF-8, or a charset that there is not
            raise SlackError("invalid_json") from None
        if not isinstance(body, dict):
            raise SlackError("json_not_object")
        # Methods that only read take forms alone; Slack does not look into a JSON body there.
        if method is None or method.json:
            arguments |= body
        arguments.pop("token", None)
        return token, arguments
    if request.method == "POST":
        arguments |= {key: value for key, value in (await request.post()).items() if isinstance(value, str)}
    return token or arguments.pop("token", ""), {k: v for k, v in arguments.items() if k != "token"}


async def strike(request: web.Request, fault: Fault | None) -> web.Response | None:
    """The answer of a fault instead of ours; nothing where the call goes on."""
    match fault.kind if fault else None:
        case "delay":
            await asyncio.sleep(float(fault["seconds"]) if fault else 0)
        case "drop_before":
            return drop(request)
        case "ratelimited":
            seconds = str(fault["retry_after"]) if fault else "1"
            words = {"ok": False, "error": "ratelimited"}
            return web.json_response(words, status=HTTPStatus.TOO_MANY_REQUESTS, headers={"Retry-After": seconds})
        case "status":
            status = HTTPStatus(int(fault["status"])) if fault else HTTPStatus.OK
            page = HTML.format(status=int(status), words=status.phrase)
            return web.Response(text=page, status=status, content_type="text/html")
        case "garbage":
            return web.Response(text=GARBAGE, content_type="application/json")
    return None


def drop(request: web.Request) -> web.Response:
    """End the connection without an answer."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()
