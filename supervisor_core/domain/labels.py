"""Labels: the few free words given with a command, and the audit label that says who gave them."""

from __future__ import annotations

import re

from supervisor_core.domain.errors import UsageError

MAX_LABEL = 100
MAX_ISSUER = 40
SEPARATOR = " - "

_LABEL = re.compile(r"[A-Za-z0-9 _-]{1,100}")
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9 _-]")
_APOSTROPHES = "'\N{RIGHT SINGLE QUOTATION MARK}"
_ID_PREFIX = re.compile(r".*[:/]")  # slack:T0TEAM/U0OPER is U0OPER to a reader


def validate_label(label: object) -> tuple[bool, str]:
    """Whether a label may be used, and if not, why, in words for the person who gave it.

    Spaces at its ends do not count; an empty one is no label, which is always fine.
    """
    if label is None:
        return True, ""
    if not isinstance(label, str):
        return False, f"A label is text, not {type(label).__name__}."
    text = label.strip(" ")
    if len(text) > MAX_LABEL:
        return False, f"A label has at most {MAX_LABEL} characters; this one has {len(text)}."
    if text and not _LABEL.fullmatch(text):
        odd = next(character for character in text if not _LABEL.fullmatch(character))
        return (
            False,
            f"A label is made of letters A-Z, digits, spaces, hyphens and underscores; {odd!r} is none.",
        )
    return True, ""


def clean_label(label: str | None) -> str | None:
    """The label as it is kept: trimmed, None where there is none; `UsageError` for one that may not be."""
    ok, problem = validate_label(label)
    if not ok:
        raise UsageError(problem)
    return (label or "").strip(" ") or None


def nearest_label(text: str) -> str | None:
    """The label that comes nearest to a text that may be none; None where nothing of it is left."""
    import unicodedata

    plain = unicodedata.normalize("NFKD", text)
    # Accents and apostrophes vanish; whatever else a label may not have stood between words.
    joined = "".join(
        character for character in plain if not unicodedata.combining(character) and character not in _APOSTROPHES
    )
    return " ".join(_NOT_IN_A_NAME.sub(" ", joined).split())[:MAX_LABEL].strip() or None


def audit_label(name: str, user_id: str, label: str | None) -> str:
    """Who asked, then what they called it: `operator - hotfix`. What is cut to fit is the label."""
    issuer = _plain_name(name) or _plain_name(_ID_PREFIX.sub("", user_id)) or "unknown"
    if not label:
        return issuer
    return f"{issuer}{SEPARATOR}{label}"[:MAX_LABEL].rstrip(" ")


def _plain_name(name: str) -> str:
    """A name that can't be mistaken for the separator or break a line of the log."""
    text = " ".join(_NOT_IN_A_NAME.sub("", name).split())
    while SEPARATOR in text:
        text = text.replace(SEPARATOR, " ")
    return text[:MAX_ISSUER].strip(" -")
