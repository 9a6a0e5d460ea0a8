"""`supervisor send 'monitoring pause'` and `resume`: asked of the running daemon, which alone can rest."""

from __future__ import annotations

import json
import sys

from supervisor_core.cli.who import shell_issuer
from supervisor_core.config import load_supervisor_config
from supervisor_core.domain.typed import Given, in_shell
from supervisor_core.runtime.control_client import NotRunningError, UnresponsiveError, ask

RESUME = "monitoring resume"

ANSWER_SECONDS = 10.0
"""A move is written down before it is answered, and a disk may be slow."""


def monitoring(name: str, config_path: str | None, *, as_json: bool) -> int:
    """Ask, and say what came of it."""
    config, issuer = load_supervisor_config(config_path), shell_issuer()
    request = {"do": "monitoring", "rest": name.endswith("pause"), "issuer": {"id": issuer.id, "name": issuer.name}}
    try:
        answer = ask(str(config.state_dir), request, timeout=ANSWER_SECONDS)
        done, said = bool(answer.get("ok")), str(answer.get("message") or answer.get("error"))
        said += f" To end it: {in_shell((Given(RESUME),))}" if done and request["rest"] else ""
    except NotRunningError:
        done, said = False, "No daemon runs here, so nothing is monitored. `supervisor start` starts one."
    except UnresponsiveError as error:
        done, said = False, f"{error} Whether monitoring changed, `supervisor status` will tell."
    if as_json:
        print(json.dumps({"success": done, "error": None if done else said, "details": {"message": said}}))
    else:
        print(said, file=sys.stdout if done else sys.stderr)
    return 0 if done else 1
