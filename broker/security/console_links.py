"""Links that sign a browser in to the console once: their codes, and the file from which they are made.

Created by broker.server.app for the startup link, and by `weir console-link` in a separate process on the
same machine; redeemed by broker.server.web. A code is its creation time and a nonce, authenticated with a key
that the broker generates at each start, so creating one needs no request to the broker. The time is an
argument, in milliseconds of the system's monotonic clock, which all processes of a machine share.

`ConsoleLinkFile` passes the key to `weir console-link`. broker.server.app writes it into the first of
`log.dirs` at each start, readable by its owner only, and removes it at shutdown. A user who can read it can
also read and write the broker's data. The broker keeps it locked, so that a file left by a killed broker is
recognised as stale.
"""

import base64
import binascii
import fcntl
import hmac
import json
import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

LIFE_MS: Final = 900_000

_TIME_BYTES: Final = 8
_NONCE_BYTES: Final = 16
_TAG_BYTES: Final = 32
_CODE_BYTES: Final = _TIME_BYTES + _NONCE_BYTES + _TAG_BYTES
_CODE_CHARACTERS: Final = 75

FILE_NAME: Final = "weir-console-link.json"


def new_key() -> bytes:
    return secrets.token_bytes(32)


def make_code(key: bytes, now_ms: int) -> str:
    """Return a code of 75 characters that need no escaping in a URL."""
    signed = now_ms.to_bytes(_TIME_BYTES, "big") + secrets.token_bytes(_NONCE_BYTES)
    return base64.urlsafe_b64encode(signed + _tag(key, signed)).rstrip(b"=").decode()


def link_with(url: str, code: str) -> str:
    """Return the link. `url` is the console's URL, with a trailing slash."""
    return f"{url}?code={code}"


class ConsoleLinks:
    """The codes of one key.

    Redeemed codes are kept until they would have expired. Only the key's owner can create valid codes, so
    their number is not limited.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._redeemed: dict[bytes, int] = {}

    def make(self, now_ms: int) -> str:
        return make_code(self._key, now_ms)

    def redeem(self, code: str, now_ms: int) -> bool:
        """Redeem the code.

        Return False if it has another key, is older than LIFE_MS or was redeemed before.
        """
        read = _read(code)
        if read is None:
            return False
        signed, tag = read
        made_ms = int.from_bytes(signed[:_TIME_BYTES], "big")
        if not hmac.compare_digest(_tag(self._key, signed), tag) or not 0 <= now_ms - made_ms < LIFE_MS:
            return False
        self._redeemed = {one: ms for one, ms in self._redeemed.items() if now_ms - ms < LIFE_MS}
        if signed in self._redeemed:
            return False
        self._redeemed[signed] = made_ms
        return True


def _read(code: str) -> tuple[bytes, bytes] | None:
    """Return the signed part and the tag; None for a malformed code."""
    if len(code) != _CODE_CHARACTERS or not code.isascii():
        return None
    try:
        whole = base64.b64decode(code + "=", altchars=b"-_", validate=True)
    except binascii.Error:
        return None
    return whole[: _CODE_BYTES - _TAG_BYTES], whole[_CODE_BYTES - _TAG_BYTES :]


def _tag(key: bytes, signed: bytes) -> bytes:
    return hmac.digest(key, signed, "sha256")


class ConsoleLink(NamedTuple):
    """`url` is the console's URL, with a trailing slash."""

    url: str
    key: bytes


class ConsoleLinkFile:
    """The file, which exists until `close`. Raises OSError if it cannot be written."""

    def __init__(self, directory: str, link: ConsoleLink) -> None:
        self._path = Path(directory, FILE_NAME)
        # A leftover file must not pass its permissions on.
        self._path.unlink(missing_ok=True)
        self._descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        text = json.dumps({"url": link.url, "key": link.key.hex()})
        os.write(self._descriptor, text.encode())

    def close(self) -> None:
        with suppress(OSError):
            self._path.unlink(missing_ok=True)
        os.close(self._descriptor)


def read_console_link(directory: str) -> ConsoleLink:
    """Read the file of a running broker.

    Raises FileNotFoundError if no broker with a console runs in this directory, other OSErrors if the file
    cannot be read, ValueError for invalid content.
    """
    path = Path(directory, FILE_NAME)
    with path.open(encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            read = json.loads(file.read(4_096))
            return ConsoleLink(str(read["url"]), bytes.fromhex(read["key"]))
    raise FileNotFoundError(path)
