"""The edge of the command line: a subcommand is found, run, and every error becomes words and an exit code."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from supervisor_core.cli import COMMANDS, FAILURE, INTERRUPTED, SUCCESS, USAGE
from supervisor_core.domain.errors import ConfigError, SupervisorError, UsageError


def run(name: str, words: Sequence[str]) -> int:
    """Run the subcommand of this name."""
    module = import_module(f"supervisor_core.cli.{name}_command")
    parser = argparse.ArgumentParser(prog=f"supervisor {name}", description=f"{COMMANDS[name].capitalize()}.")
    parser.add_argument("--config", metavar="FILE", help="else $SUPERVISOR_CONFIG, else ./config.yaml")
    module.configure(parser)
    try:
        options = parser.parse_args(words)
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else USAGE
    try:
        code: int = module.run(options)
        sys.stdout.flush()
    except (ConfigError, UsageError) as error:
        return _say(str(error), USAGE)
    except SupervisorError as error:
        return _say(str(error), FAILURE)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read us has seen enough. What is still in the buffer must not raise again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return SUCCESS
    return code


def _say(text: str, code: int) -> int:
    print(f"supervisor: {text}", file=sys.stderr)
    return code
