"""The door to mail servers: one message, always over TLS with a verified certificate.

Errors name neither the password nor what the server wrote, which may be anything. A proxy of HTTP carries no SMTP, so
mail servers are reached directly.
"""

from __future__ import annotations

import contextlib
import os
import smtplib
import socket
import ssl
from collections.abc import Iterator
from urllib.parse import urlsplit

from supervisor_core.alerts.outside.formats.mail import recipients_of
from supervisor_core.alerts.outside.formats.model import Mail, MailLogin
from supervisor_core.host.network import Network, NetworkError, causes_of, certificate_problem

STEP_SECONDS = 10.0
"""The time limit of each step. All steps together have the limit of one attempt."""

PORTS = {"smtp": 587, "smtps": 465}
LOGIN, MESSAGE = "the login", "the message"


class NoMailServer(Exception):
    """There was no answer that can be trusted; the message says why."""


def send_mail(network: Network, mail: Mail) -> tuple[int, str]:
    """Send it; the last answer's code, and the step that it answers.

    The message counts as sent if any recipient is accepted; a refused one is the server's to report."""
    with _in_words(), _connected(network, mail.login) as server:
        try:
            _log_in(server, mail.login)
            server.send_message(mail.message, mail.message["From"].addresses[0].addr_spec, recipients_of(mail))
        except smtplib.SMTPAuthenticationError as error:
            return error.smtp_code, LOGIN
        except smtplib.SMTPRecipientsRefused as error:
            return min(code for code, _ in error.recipients.values()), "the recipients"
        except smtplib.SMTPSenderRefused as error:
            return error.smtp_code, "the sender"
        except smtplib.SMTPDataError as error:
            return error.smtp_code, MESSAGE
        return 250, MESSAGE


def check_server(network: Network, login: MailLogin) -> tuple[int, str]:
    """Connect and log in, and send nothing."""
    with _in_words(), _connected(network, login) as server:
        try:
            _log_in(server, login)
        except smtplib.SMTPAuthenticationError as error:
            return error.smtp_code, LOGIN
        return 250, LOGIN


@contextlib.contextmanager
def _connected(network: Network, login: MailLogin) -> Iterator[smtplib.SMTP]:
    """A TLS connection. One that can't be encrypted is closed before anything is sent."""
    parts = urlsplit(login.server)
    host, port = parts.hostname or "", parts.port or PORTS[parts.scheme]
    if parts.scheme == "smtps":
        server: smtplib.SMTP = smtplib.SMTP_SSL(host, port, timeout=STEP_SECONDS, context=network.tls())
    else:
        server = smtplib.SMTP(host, port, timeout=STEP_SECONDS)
    try:
        if parts.scheme == "smtp":
            server.ehlo()
            if not server.has_extn("starttls"):
                raise NoMailServer("the server offers no encryption (STARTTLS)")
            server.starttls(context=network.tls())
        yield server
        with contextlib.suppress(smtplib.SMTPException, OSError):  # it has the message
            server.quit()
    finally:
        server.close()


def _log_in(server: smtplib.SMTP, login: MailLogin) -> None:
    if login.user:
        server.login(login.user, login.password)


@contextlib.contextmanager
def _in_words() -> Iterator[None]:
    """Turn the library's errors, which quote the server, into ours."""
    try:
        yield
    except NetworkError as error:
        raise NoMailServer(error.message.rstrip(".")) from None
    except TimeoutError:
        raise NoMailServer("no response in time") from None
    except ssl.SSLError as error:
        raise NoMailServer(certificate_problem(error) or "no trusted connection") from None
    except smtplib.SMTPNotSupportedError:
        raise NoMailServer("the server offers no supported login method") from None
    except smtplib.SMTPResponseException as error:
        raise NoMailServer(f"responded {error.smtp_code}") from None
    except smtplib.SMTPServerDisconnected:
        raise NoMailServer("the server closed the connection") from None
    except (smtplib.SMTPException, ValueError) as error:  # the edge: its words may quote anything
        raise NoMailServer(f"the message couldn't be sent ({type(error).__name__})") from None
    except OSError as error:
        raise NoMailServer(f"unreachable{_cause(error)}") from None


def _cause(error: BaseException) -> str:
    for found in causes_of(error):
        if isinstance(found, socket.gaierror):
            return ": unknown hostname"
        if isinstance(found, OSError) and isinstance(found.errno, int):
            return f": {os.strerror(found.errno)}"
    return ""
