"""What pip runs with, and what is told of its words: the end of them, without passwords, and what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from supervisor_core.adapters.addresses import without_query
from supervisor_core.adapters.git import git_environment
from supervisor_core.adapters.programs import Ran
from supervisor_core.adapters.report_masking import Masking
from supervisor_core.domain.errors import SupervisorError

LONGEST_WORDS = 600
"""Characters of what pip says: the end of a build's traceback and what failed, on a card in Slack."""

LONG_NAME = 16
"""Characters. A user's name that is longer is a token, as some hosts want it; a shorter one may be any word."""

KEPT = frozenset({"SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NETRC", "XDG_CACHE_HOME"})
"""Beside what git may have (pip runs it for `git+…`, and the proxies are the same): whom to trust, and the login."""

DIVERTING = frozenset(
    f"PIP_{name}"
    for name in (
        *("TARGET", "PREFIX", "ROOT", "USER", "PYTHON", "DRY_RUN", "REQUIREMENT", "EDITABLE"),
        *("PATH", "LOCAL", "EXCLUDE", "EXCLUDE_EDITABLE", "QUIET", "VERBOSE", "NO_DEPS", "IGNORE_INSTALLED"),
    )
)
"""Of pip's own variables those that would lead it to another environment than the worker's, install something else
than is asked for, or change the lists that we read. All others stay: with them a host says where its index is
(PIP_INDEX_URL, PIP_CONFIG_FILE, PIP_CERT), and a `${PIP_…}` in requirements can be a login."""

FORCED = {
    "PIP_NO_INPUT": "1",  # as variables also for the pip that pip starts to build something
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PYTHONIOENCODING": "utf-8",
}

_SECRET_NAME = re.compile("TOKEN|PASSW|SECRET", re.IGNORECASE)  # not KEY: PIP_KEYRING_PROVIDER=import
_LOGIN = re.compile(r"://([^\s/]+)@")

_NO_PIP = re.compile(r".+: No module named pip(\.__main__;.*)?")
"""All that Python says then. Within more words it is a build that lacks it, which is something else."""

_MANAGED = "externally-managed-environment"

_FRAME = " \t│╰─>"
_SAYS_NOTHING = (
    *("note: ", "hint: ", "[notice]", "[end of output]", "See above for output"),
    *(
        "WARNING: Running pip as the 'root' user",
        "WARNING: Ignoring invalid distribution",
        "WARNING: You are using pip",
    ),
)


class PackagesError(SupervisorError):
    """The packages could not be changed or looked at."""


class NoPipError(PackagesError):
    """This Python has no pip."""


def pip_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What pip runs with."""
    own = {name: value for name, value in environ.items() if name.upper() in KEPT or _is_kept_of_pip(name.upper())}
    return {**git_environment(environ), **own, **FORCED}


def _is_kept_of_pip(name: str) -> bool:
    return name.startswith("PIP_") and name not in DIVERTING


def masking_for(pip_args: Sequence[str], environment: Mapping[str, str]) -> Masking:
    """A mask for all logins that pip is given."""
    texts = (*pip_args, *environment.values())
    named = {value for name, value in environment.items() if name.startswith("PIP_") and _SECRET_NAME.search(name)}
    return Masking(named | {secret for text in texts for secret in _logins(text)})


def _logins(text: str) -> Iterator[str]:
    for found in _LOGIN.finditer(text):
        user, _, password = found[1].partition(":")
        yield password or user
        if len(user) >= LONG_NAME:
            yield user


def last_words(ran: Ran, masking: Masking) -> str:
    """The end of what pip says, in one line: what it says twice only once, and without its frames and advice."""
    said = masking.text(without_query(ran.errors.strip() or ran.output))
    lines = dict.fromkeys(line.strip(_FRAME) for line in said.splitlines())
    text = " ".join(line for line in lines if line and not line.startswith(_SAYS_NOTHING))
    if len(text) > LONGEST_WORDS:
        text = "… " + text[-LONGEST_WORDS:].partition(" ")[2]
    return text


def failure(ran: Ran, python: str, doing: str, timeout: float, masking: Masking) -> PackagesError:
    """What went wrong with a run of pip, and what a person can do."""
    if _NO_PIP.fullmatch(ran.errors.strip()):
        return NoPipError(
            f"The Python {python} has no pip.",
            remedy=f"Run `{python} -m ensurepip`, or give the worker a virtual environment of its own.",
        )
    if _MANAGED in ran.errors:
        return PackagesError(
            f"The Python {python} belongs to the system, which lets no pip change its packages.",
            remedy="Give the worker a virtual environment of its own (workers.ID.python), or set "
            "workers.ID.code.pip_args: [--break-system-packages].",
        )
    words = last_words(ran, masking)
    if ran.timed_out:
        last = f" It said at last: {words}" if words else ""
        return PackagesError(f"`pip {doing}` did not end within {timeout:.3g} s and was ended.{last}")
    return PackagesError(f"`pip {doing}` failed: {words or 'it said nothing.'}")
