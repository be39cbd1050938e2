"""The secrets of delegation tokens: their HMACs, and the SCRAM credentials that their owners log in with.
(KIP-48; Kafka: DelegationTokenCache, DelegationTokenManager)

The handlers of delegation tokens and of logins share one `DelegationTokens`. Pure. Nothing of it is stored:
the HMAC is that of the token's id with `delegation.token.secret.key`, and its base64 is the password. Another
key makes all tokens invalid. An id has 128 random bits, so the time of a login may reveal that a token
exists.
"""

import base64
import hashlib
import hmac
from collections.abc import Iterable
from typing import Final

from broker.security.scram import MIN_ITERATIONS, ComputedCredential, ScramMechanism, keys_of

ITERATIONS: Final = MIN_ITERATIONS
"""The password has 512 bits, which no guess finds. (Kafka: ScramMechanism.minIterations)"""

_SALT: Final = b"weir delegation token salt"


class DelegationTokens:
    """The tokens with these `ids`. `secret` "": delegation tokens are disabled, and there are none."""

    def __init__(self, secret: str = "", ids: Iterable[str] = ()) -> None:
        self._secret = secret.encode()
        self._by_hmac: dict[bytes, str] = {}
        self._credentials: dict[str, dict[str, ComputedCredential]] = {}
        for token_id in ids:
            self.add(token_id)

    @property
    def enabled(self) -> bool:
        return bool(self._secret)

    def add(self, token_id: str) -> None:
        """Know a token; harmless for a known one."""
        if self.enabled:
            self._by_hmac[self.hmac(token_id)] = token_id

    def remove(self, token_id: str) -> None:
        if self.enabled:
            self._by_hmac.pop(self.hmac(token_id), None)
            self._credentials.pop(token_id, None)

    def hmac(self, token_id: str) -> bytes:
        """Return the HMAC of a token, 64 bytes. Takes two microseconds."""
        return hmac.digest(self._secret, token_id.encode(), hashlib.sha512)

    def find(self, token_hmac: bytes) -> str | None:
        """Return the id of the token with this HMAC."""
        return self._by_hmac.get(token_hmac)

    def credential(self, mechanism: ScramMechanism, token_id: str) -> ComputedCredential:
        """Return the credential of a known token.

        The first call for a token and mechanism takes milliseconds; the result is kept until the token is
        removed.
        """
        kept = self._credentials.setdefault(token_id, {})
        found = kept.get(mechanism.name)
        if found is None:
            password = base64.b64encode(self.hmac(token_id))
            salt = hmac.digest(self._secret, _SALT + token_id.encode(), hashlib.sha256)
            salted = hashlib.pbkdf2_hmac(mechanism.hash_name, password, salt, ITERATIONS)
            found = kept[mechanism.name] = ComputedCredential(salt, ITERATIONS, *keys_of(mechanism, salted))
        return found
