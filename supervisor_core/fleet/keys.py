"""Ed25519 keys (NKeys): a user's key for NATS, and signatures that hosts verify.

A signature covers a prefix that isn't valid UTF-8. At each connection the same key signs a text of the server's choice,
so without the prefix a server could have the hub sign a command.
"""

from __future__ import annotations

import base64
import binascii
import os
import stat
import sys
from pathlib import Path
from typing import Self

from supervisor_core.common.errors import RefusedError, SupervisorError
from supervisor_core.host.descriptors import PRIVATE_FILE, PRIVATE_FOLDER
from supervisor_core.host.open_folder import OpenFolder

DOMAIN = b"\xffsupervisor fleet\n"
"""The beginning of everything that is signed."""

SEED_BYTES = 32
MAX_SEED_FILE = 1024
OTHERS = stat.S_IRWXG | stat.S_IRWXO


class KeyUnusable(SupervisorError):
    """The key can't be used."""


class KeyPair:
    """A secret key and its public key. It never shows the secret one."""

    def __init__(self, seed: str) -> None:
        import nkeys

        try:
            prefix, raw = nkeys.decode_seed(seed.encode())
            intact = nkeys.encode_seed(bytes(raw), prefix).decode() == seed  # the library doesn't check the checksum
        except (nkeys.NkeysError, ValueError, IndexError):
            intact = False
        if not intact:
            raise KeyUnusable("The secret key is damaged: it isn't an NKey seed.")
        self._pair = nkeys.from_seed(bytearray(seed.encode()))
        self._public_key: str = self._pair.public_key.decode()
        if not _is_public_key(self._public_key):
            raise KeyUnusable("The secret key isn't a user's: its seed must begin with SU.")
        self._seed = seed

    @classmethod
    def new(cls) -> Self:
        import nkeys

        return cls(nkeys.encode_seed(os.urandom(SEED_BYTES), nkeys.PREFIX_BYTE_USER).decode())

    @classmethod
    def read(cls, path: Path) -> Self:
        """The key in a file that only its owner may read."""
        try:
            with OpenFolder.at(path.parent, shared=False) as folder:
                mode = folder.look(path.name).st_mode
                text = folder.read(path.name, MAX_SEED_FILE).decode("ascii", "replace").strip()
        except FileNotFoundError:
            raise KeyUnusable(
                f"The key file {path} doesn't exist.", remedy="Run `supervisor fleet init` or `supervisor fleet join`."
            ) from None
        except OSError as error:
            raise KeyUnusable(f"The key file {path} can't be read: {error.strerror}.") from None
        if sys.platform != "win32" and mode & OTHERS:
            raise KeyUnusable(
                f"The key file {path} can be read by others (mode {stat.S_IMODE(mode):04o}).",
                remedy=f"Run `chmod 600 {path}`. If somebody may have read it, revoke the host and let it join again.",
            )
        try:
            return cls(text)
        except KeyUnusable as error:
            raise KeyUnusable(f"The key file {path} can't be used. {error.message}") from None

    @classmethod
    def create(cls, path: Path) -> Self:
        """A new key, saved durably in a new file that only its owner may read."""
        pair = cls.new()
        pair.save(path)
        return pair

    def save(self, path: Path) -> None:
        """Save the key in a new file. An existing one is never replaced."""
        path.parent.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        try:
            with OpenFolder.at(path.parent, shared=False) as folder:
                folder.create(path.name, f"{self._seed}\n".encode(), PRIVATE_FILE)
        except FileExistsError:
            raise RefusedError(
                f"The key file {path} exists. It isn't replaced.", remedy="To make a new key, move the file away first."
            ) from None

    @property
    def public_key(self) -> str:
        """The public key: `U` and 55 letters and digits."""
        return self._public_key

    @property
    def seed(self) -> str:
        """The secret key. It goes to nats-py and into the token of an invite, and nowhere else."""
        return self._seed

    def sign(self, data: bytes) -> str:
        return base64.urlsafe_b64encode(self._pair.sign(DOMAIN + data)).decode().rstrip("=")

    def __repr__(self) -> str:
        return f"KeyPair({self._public_key})"


def verify(public_key: str, data: bytes, signature: str) -> bool:
    """True for the signature of this key over exactly these bytes; False for anything else, junk included."""
    import nacl.exceptions
    import nacl.signing

    if not _is_public_key(public_key):
        return False
    try:
        raw = base64.b64decode(signature + "=" * (-len(signature) % 4), altchars=b"-_", validate=True)
        nacl.signing.VerifyKey(base64.b32decode(public_key)[1:-2]).verify(DOMAIN + data, raw)
    except (ValueError, TypeError, nacl.exceptions.CryptoError):
        return False
    return True


def _is_public_key(text: str) -> bool:
    """True for a user's public key with the right checksum."""
    import nkeys

    try:
        raw = base64.b32decode(text)
    except (binascii.Error, ValueError, TypeError):
        return False
    if len(raw) != SEED_BYTES + 3 or raw[0] != nkeys.PREFIX_BYTE_USER:
        return False
    return bool(nkeys.crc16(bytearray(raw[:-2])) == int.from_bytes(raw[-2:], "little"))
