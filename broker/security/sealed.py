"""Secrets that this process keeps to log in elsewhere, encrypted in memory with AES-256-GCM.

The key is random for each process, and in the same memory. So a secret is in no repr, no traceback and no
dump that is searched for it, and a copy of the sealed value is worth nothing; who reads all of the process's
memory has both. A secret is in the clear while a login uses it, and until Python reuses that memory.
"""

import secrets
from functools import cache
from typing import Any, Final

_KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12


class Sealed:
    """One secret."""

    __slots__ = ("_sealed",)

    def __init__(self, secret: bytes) -> None:
        nonce = secrets.token_bytes(_NONCE_BYTES)
        self._sealed: bytes = nonce + _cipher().encrypt(nonce, secret, None)

    def open(self) -> bytes:
        """Return the secret; takes microseconds."""
        opened: bytes = _cipher().decrypt(self._sealed[:_NONCE_BYTES], self._sealed[_NONCE_BYTES:], None)
        return opened

    def __repr__(self) -> str:
        return "Sealed(hidden)"


@cache
def _cipher() -> Any:
    # Imported here, because most servers log in nowhere and must not wait for it.
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(secrets.token_bytes(_KEY_BYTES))
