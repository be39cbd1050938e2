"""Browser sessions and their expiry.

Kept by webui.security.authenticator. In memory only: a restart ends all sessions. The cookie holds 256
random bits, the table their hash, so a memory dump contains no valid cookie. Pure: time is an argument.
"""

import hmac
import secrets
from collections.abc import Iterable
from hashlib import sha256
from typing import Final

import msgspec

from broker.controller.rows.broker import TokenRow

MAX_SESSIONS: Final = 1_024
MAX_REASONS: Final = 1_024
"""Sessions of which it is kept why they ended, so that their pages can say so."""

IDLE: Final = "Your session was unused for too long."
TOO_OLD: Final = "Your session has reached its maximum age."
LOGGED_OUT: Final = "You were logged out in another browser."
REPLACED: Final = "Your session was closed because of newer ones under the same token."


class Session(msgspec.Struct):
    """A session of `token`. Every change must send `csrf` in X-CSRF-Token. `logout_url` ends the session at
    the provider of single sign-on too.
    """

    token: TokenRow
    csrf: str
    opened_at_ms: int
    seen_at_ms: int
    logout_url: str = ""

    def owns(self, csrf: str) -> bool:
        return hmac.compare_digest(self.csrf.encode(), csrf.encode())


class Sessions:
    """A table bounded in total and per token: a new session replaces the longest idle one. It is not refused,
    since a browser that was left open would lock out its owner.
    """

    __slots__ = ("_by_hash", "_idle_ms", "_max_ms", "_max_per_token", "_reasons")

    def __init__(self, idle_ms: int, max_ms: int, max_per_token: int = MAX_SESSIONS) -> None:
        self._idle_ms = idle_ms
        self._max_ms = max_ms
        self._max_per_token = max_per_token
        self._by_hash: dict[bytes, Session] = {}
        self._reasons: dict[bytes, str] = {}

    def __len__(self) -> int:
        return len(self._by_hash)

    def open(self, token: TokenRow, now_ms: int, logout_url: str = "") -> tuple[str, Session]:
        """Open a session. Return its secret, which is the cookie's value, and the session."""
        if len(self._by_hash) >= MAX_SESSIONS:
            self._drop_ended(now_ms)
        if len(self._by_hash) >= MAX_SESSIONS:
            self._drop_longest_idle(self._by_hash)
        of_token = [key for key, each in self._by_hash.items() if each.token.name == token.name]
        if len(of_token) >= self._max_per_token:
            self._drop_longest_idle(of_token)
        secret = secrets.token_urlsafe(32)
        session = Session(token, secrets.token_urlsafe(32), now_ms, now_ms, logout_url)
        self._by_hash[_hashed(secret)] = session
        return secret, session

    def find(self, secret: str, now_ms: int) -> Session | None:
        """Return the session and note its use; None if there is none or it has ended."""
        key = _hashed(secret)
        session = self._by_hash.get(key)
        if session is None:
            return None
        if self.has_ended(session, now_ms):
            self._end(key, IDLE if now_ms - session.seen_at_ms >= self._idle_ms else TOO_OLD)
            return None
        session.seen_at_ms = now_ms
        return session

    def has_ended(self, session: Session, now_ms: int) -> bool:
        return now_ms - session.seen_at_ms >= self._idle_ms or now_ms - session.opened_at_ms >= self._max_ms

    def close(self, secret: str, reason: str = "") -> None:
        self._end(_hashed(secret), reason)

    def reason(self, secret: str) -> str:
        """Return why the session ended; "" if that is not known any more, or if it has not ended."""
        return self._reasons.get(_hashed(secret), "")

    def close_all(self, token: str | None, now_ms: int) -> int:
        """End the sessions of the token of this name, or of all tokens (None), and return their number."""
        sessions = {key: each for key, each in self._by_hash.items() if not self.has_ended(each, now_ms)}
        self._by_hash = sessions
        closed = [key for key, each in sessions.items() if token is None or each.token.name == token]
        for key in closed:
            self._end(key, LOGGED_OUT)
        return len(closed)

    def _drop_ended(self, now_ms: int) -> None:
        self._by_hash = {
            key: session for key, session in self._by_hash.items() if not self.has_ended(session, now_ms)
        }

    def _drop_longest_idle(self, keys: Iterable[bytes]) -> None:
        self._end(min(keys, key=lambda key: self._by_hash[key].seen_at_ms), REPLACED)

    def _end(self, key: bytes, reason: str) -> None:
        if self._by_hash.pop(key, None) is None or not reason:
            return
        self._reasons[key] = reason
        if len(self._reasons) > MAX_REASONS:
            del self._reasons[next(iter(self._reasons))]


def _hashed(secret: str) -> bytes:
    return sha256(secret.encode("utf-8", "surrogateescape")).digest()
