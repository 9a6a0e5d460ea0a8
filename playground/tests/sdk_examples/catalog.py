"""The examples, how each is started and what is done with it, and those that aren't run, with the reason."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from playground.tests.sdk_examples import scenarios
from playground.tests.sdk_examples.scenarios import Scenario, both, commanded, mentioned, shortcut_opens_modal

EVENTS = "/slack/events"
BOLT, SDK = "bolt-python", "python-slack-sdk"


@dataclass(frozen=True)
class Example:
    """One example. Without a scenario it isn't run, for the reason."""

    repository: str
    path: str
    client: str
    scenario: Scenario | None = None
    start: str = "python {file}"
    """The command; {port} is the port that stands for 3000."""
    reason: str = ""
    socket: bool = False
    route: str = EVENTS
    oauth: bool = False

    @property
    def is_script(self) -> bool:
        """True if it ends by itself."""
        return self.scenario is scenarios.finishes


UVICORN = "python -m uvicorn {module}:api --port {port}"
GUNICORN = "python -m gunicorn {module}:api -b 127.0.0.1:{port}"
FLASK = "python -m flask --app {module}:flask_app run -p {port}"
HELLO, HEY = commanded("/hello-bolt-python"), commanded("/hey-google")
SOCKET_HELLO = commanded("/hello-socket-mode")
README = shortcut_opens_modal("callback-id-here", "My App", "Label")
SOCKET = both(SOCKET_HELLO, mentioned, scenarios.socket_modal)
SDK_SOCKET = both(mentioned, SOCKET_HELLO)


def _bolt() -> Iterator[Example]:
    def http(
        path: str, scenario: Scenario, client: str = "sync", start: str = "python {file}", route: str = EVENTS
    ) -> Example:
        return Example(BOLT, f"examples/{path}", f"{client}, HTTP", scenario, start, route=route)

    def socket(path: str, scenario: Scenario, client: str = "sync") -> Example:
        return Example(BOLT, f"examples/{path}", f"{client}, Socket Mode", scenario, socket=True)

    yield http("app.py", both(HELLO, mentioned))
    yield http("app_authorize.py", both(HELLO, mentioned))
    yield http("async_app.py", both(HELLO, mentioned), "async")
    yield http("async_app_authorize.py", both(HELLO, mentioned), "async")
    yield http("events_app.py", scenarios.events)
    yield http("message_events.py", scenarios.message_events)
    yield http("modals_app.py", scenarios.command_opens_modal)
    yield http("modals_app_typed.py", scenarios.command_opens_modal)
    yield http("lazy_modals_app.py", scenarios.command_opens_modal)
    yield http("lazy_async_modals_app.py", scenarios.command_opens_modal, "async")
    yield http("readme_app.py", both(mentioned, README))
    yield http("readme_async_app.py", both(HELLO, mentioned, README), "async")
    yield http("getting_started/app.py", scenarios.greets)
    yield socket("socket_mode.py", SOCKET)
    yield socket("socket_mode_async.py", SOCKET, "async")
    yield socket("socket_mode_healthcheck.py", scenarios.healthy("8080"))
    yield socket("socket_mode_async_healthcheck.py", scenarios.healthy("8080"), "async")
    yield socket("assistants/app.py", scenarios.assistant)
    yield socket("assistants/async_app.py", scenarios.assistant, "async")
    yield socket("assistants/interaction_app.py", scenarios.assistant_interaction)
    yield socket("assistants/async_interaction_app.py", scenarios.assistant_interaction, "async")
    yield http("asgi/app.py", mentioned, start=UVICORN)
    yield http("asgi/async_app.py", mentioned, "async", UVICORN)
    yield http("wsgi/app.py", mentioned, start=GUNICORN)
    yield http("bottle/app.py", mentioned)
    yield http("cherrypy/app.py", mentioned)
    yield http("pyramid/app.py", mentioned)
    yield http("tornado/app.py", mentioned)
    yield http("tornado/async_app.py", mentioned, "async")
    yield http("falcon/app.py", mentioned, start=GUNICORN)
    yield http("fastapi/app.py", mentioned, start=UVICORN)
    yield http("fastapi/async_app.py", mentioned, "async", UVICORN)
    yield http("fastapi/async_app_custom_props.py", mentioned, "async", UVICORN)
    yield http("starlette/app.py", mentioned, start=UVICORN)
    yield http("starlette/async_app.py", mentioned, "async", UVICORN)
    yield http("sanic/async_app.py", mentioned, "async", UVICORN)
    yield http("flask/app.py", mentioned, start=FLASK)
    yield http("heroku/main.py", commanded("/hello-bolt-python-heroku"), start=FLASK)
    yield http("aiohttp_devtools/async_app.py", both(HELLO, mentioned), "async", ADEV)
    yield http("docker/aiohttp/main.py", HELLO, "async")
    yield http("docker/asgi/main.py", mentioned, start=UVICORN.replace(":api", ":asgi_app"))
    yield http("docker/fastapi-gunicorn/main.py", HELLO, "async", UVICORN)
    yield http("docker/flask-gunicorn/main.py", HELLO, start=GUNICORN.replace(":api", ":flask_app"))
    yield http("docker/flask-uwsgi/main.py", HELLO, start=FLASK)
    yield http("docker/sanic/main.py", HELLO, "async")
    yield http("google_cloud_run/aiohttp/main.py", HEY, "async")
    yield http("google_cloud_run/flask-gunicorn/main.py", HEY, start=GUNICORN.replace(":api", ":flask_app"))
    yield http("google_cloud_run/sanic/main.py", HEY, "async")
    yield http(
        "google_app_engine/flask/main.py",
        commanded("/hey-google-app-engine"),
        start=FLASK.replace(":flask_app", ":app"),
    )
    yield http(
        "google_cloud_functions/simple_main.py", both(commanded("/hello-bolt-python-gcp"), mentioned), route="/function"
    )


def _oauth() -> Iterator[Example]:
    def http(path: str, scenario: Scenario, client: str = "sync", start: str = "python {file}") -> Example:
        place = f"examples/{path}"
        return Example(BOLT, place, f"{client}, HTTP, OAuth", scenario, start, oauth=True)

    yield http("oauth_app.py", both(mentioned, scenarios.command_opens_modal))
    yield http("oauth_app_settings.py", both(mentioned, scenarios.command_opens_modal))
    yield http("oauth_sqlite3_app.py", mentioned)
    yield http("oauth_sqlite3_app_bot_only.py", mentioned)
    yield http("oauth_sqlite3_app_org_level.py", both(mentioned, commanded("/org-level-command")))
    yield http("sqlalchemy/oauth_app.py", mentioned, start=FLASK)
    yield http("sqlalchemy/async_oauth_app.py", mentioned, "async")
    yield http("flask/oauth_app.py", mentioned, start=FLASK)
    yield http("wsgi/oauth_app.py", mentioned, start=GUNICORN)
    yield http("falcon/oauth_app.py", mentioned, start=GUNICORN)
    for name in ("asgi", "fastapi", "starlette"):
        yield http(f"{name}/oauth_app.py", mentioned, start=UVICORN)
        yield http(f"{name}/async_oauth_app.py", mentioned, "async", UVICORN)
    for name in ("bottle", "cherrypy", "pyramid", "tornado"):
        yield http(f"{name}/oauth_app.py", mentioned)
    yield http("tornado/async_oauth_app.py", mentioned, "async")
    yield http("sanic/async_oauth_app.py", mentioned, "async", UVICORN)
    socket = both(SOCKET_HELLO, mentioned, scenarios.socket_modal)
    client = "sync, Socket Mode, OAuth"
    yield Example(BOLT, "examples/socket_mode_oauth.py", client, socket, socket=True, oauth=True)


ADEV = "python -m aiohttp_devtools runserver --port {port} --app-factory app_factory {file}"


def _sdk() -> Iterator[Example]:
    samples = "integration_tests/samples"

    def script(path: str, client: str = "sync") -> Example:
        return Example(SDK, f"{samples}/{path}", f"{client}, Web API", scenarios.finishes)

    def http(path: str, scenario: Scenario) -> Example:
        return Example(SDK, path, "sync, HTTP", scenario)

    def socket(path: str, scenario: Scenario, client: str) -> Example:
        return Example(SDK, f"{samples}/socket_mode/{path}", f"{client}, Socket Mode", scenario, socket=True)

    for name in ("calling_any_api_methods", "channels", "emoji_reactions", "sending_a_message", "users"):
        yield script(f"basic_usage/{name}.py")
    for name in ("create_private_channel", "list_conversations", "open_dm"):
        yield script(f"conversations/{name}.py")
    yield script("readme/sending_messages.py")
    yield script("readme/async_script.py", "async")
    for name in ("views", "views_2"):
        yield http(f"{samples}/basic_usage/{name}.py", scenarios.accepted)
    yield http(f"{samples}/basic_usage/views_default_to_current_conversation.py", scenarios.current_conversation)
    yield http("tutorial/PythOnBoardingBot/app.py", scenarios.onboarding)
    yield socket("builtin_example.py", scenarios.reacts_to_messages, "sync, built-in client")
    yield socket("websocket_client_example.py", scenarios.reacts_to_messages, "sync, websocket_client")
    yield socket("aiohttp_example.py", scenarios.reacts_to_messages, "async, aiohttp")
    yield socket("websockets_example.py", scenarios.reacts_to_messages, "async, websockets")
    yield socket("bolt_builtin_example.py", SDK_SOCKET, "sync, built-in client")
    yield socket("bolt_websocket_client_example.py", SDK_SOCKET, "sync, websocket_client")
    yield socket("bolt_aiohttp_example.py", SDK_SOCKET, "sync, aiohttp")
    yield socket("bolt_aiohttp_async_example.py", SDK_SOCKET, "async, aiohttp")
    yield socket("bolt_websockets_example.py", SDK_SOCKET, "sync, websockets")
    yield socket("bolt_websockets_async_example.py", SDK_SOCKET, "async, websockets")


def _sdk_oauth() -> Iterator[Example]:
    samples = "integration_tests/samples"
    for name, kind in (("builtin", "sync, built-in client"), ("websocket_client", "sync, websocket_client")):
        path = f"{samples}/socket_mode/bolt_oauth_{name}_example.py"
        yield Example(SDK, path, f"{kind}, Socket Mode, OAuth", SOCKET_HELLO, socket=True, oauth=True)
    opened = scenarios.command_opens("/open-modal", "Awesome Modal", "Input label")
    yield Example(SDK, f"{samples}/oauth/oauth_v2.py", "sync, HTTP, OAuth", opened, oauth=True)


NOT_RUN = {
    "*/aws_*": "It runs in AWS Lambda.",
    "*/google_cloud_functions/*": "It needs Google's data store.",
    "*/django/*": "It needs a database that is migrated first.",
    "*/token_rotation/*": "The playground has no token rotation.",
    "*/openid_connect/*": "The playground has no OpenID Connect.",
    "*/falcon/async_*.py": "It imports a name that slack-bolt 1.30 doesn't have in this module.",
    "*/bolt_oauth_aiohttp_async_example.py": "It never connects: `app.start()` runs another event loop.",
    "*/bolt_oauth_aiohttp_example.py": "It gives a sync App to an async handler, which fails.",
    "*oauth*": "It needs a Sanic of 2020.",
    "*/workflow*": "Slack retired steps from apps in 2024.",
    "*/dialogs_app.py": "Dialogs came before modals; the playground has no dialog.open.",
    "*proxy*": "It needs a proxy.",
    "*/rtm*": "The playground has no RTM API.",
    "*/scim/*": "The playground has no SCIM API.",
    "*/issues/*": "It reproduces an old issue and shows no feature.",
    "*uploading_files.py": "It calls files.upload, which Slack retired in 2025.",
    "*/rate_limits.py": "It never ends.",
    "*/readme/async_function_in_framework.py": "It needs a Sanic of 2020.",
    "*/bolt_adapter/*": "Part of other examples.",
    "*/onboarding_tutorial.py": "Part of the tutorial's app.",
}


def catalog(sources: dict[str, Path]) -> Iterator[Example]:
    """Every example in these checkouts."""
    known = {(each.repository, each.path): each for each in (*_bolt(), *_oauth(), *_sdk(), *_sdk_oauth())}
    places = {BOLT: ("examples",), SDK: ("integration_tests/samples", "tutorial")}
    for repository, root in sources.items():
        files = (path for place in places[repository] for path in sorted((root / place).rglob("*.py")))
        for file in files:
            path = file.relative_to(root).as_posix()
            if file.name == "__init__.py" or not file.read_text(encoding="utf-8").strip():
                continue
            if (repository, path) in known:
                yield known[repository, path]
                continue
            reason = next((why for pattern, why in NOT_RUN.items() if fnmatch(f"/{path}", pattern)), "")
            yield Example(repository, path, "", reason=reason or "It isn't in the catalog yet.")
