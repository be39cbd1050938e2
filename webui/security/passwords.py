"""Password hashing and verification, in a worker thread.

Part of webui.security.authenticator. A hash takes a quarter of a second of a core and 32 MiB, so the limits
are one hash at a time and two per second after a burst of eight; a request that would wait for more than
five seconds is refused without a hash. Wrong guesses delay an address as they do with tokens, and also a
name, for guesses from any address; the token of that name still works.
"""

from collections.abc import Callable
from typing import Final, TypeVar

import trio

from broker.controller.rows.broker import TokenRow
from broker.controller.tokens import StoredPassword
from webui.backend import Backend
from webui.fair_queue import RateLimit
from webui.problem import Problem
from webui.security.backoff import Guess, GuessBackoff

AT_ONCE: Final = 1
HASHES_PER_S: Final = 2
BURST: Final = 8
LONGEST_WAIT_S: Final = 5

Answer = TypeVar("Answer")


class Passwords:
    """Password checks. `addresses` is the back-off shared with tokens; `now_ms` a monotonic clock."""

    __slots__ = ("_addresses", "_backend", "_limiter", "_names", "_now_ms", "_pace")

    def __init__(self, backend: Backend, addresses: GuessBackoff, now_ms: Callable[[], int]) -> None:
        self._addresses = addresses
        self._backend = backend
        self._limiter = trio.CapacityLimiter(AT_ONCE)
        self._names = GuessBackoff()
        self._now_ms = now_ms
        self._pace = RateLimit(HASHES_PER_S, BURST, LONGEST_WAIT_S)

    async def prove(self, name: str, secret: str, address: str, guess: Guess | None = None) -> TokenRow:
        """Return the token of this name and password, or secret. `guess` is the guess already counted for the
        address. Raises Problem 401, 429 if the address or name must wait, or 503.

        Cancelled, it counts a wrong guess.
        """
        now_ms, key = self._now_ms(), _key(name)
        wait_ms = self._names.wait_ms(key, now_ms)
        if guess is None:
            wait_ms = max(wait_ms, self._addresses.wait_ms(address, now_ms))
        if wait_ms:
            raise too_often(wait_ms)
        wait_s = self._turn()
        guesses = guess or self._addresses.begin(address, now_ms), self._names.begin(key, now_ms)
        row = None
        try:
            credentials = self._backend.views.metadata.credentials_of(name)
            if await self._in_thread(lambda: credentials.accepts(secret), wait_s):
                row = credentials.row
        finally:
            for each in guesses:
                if row is None:
                    each.wrong(None, self._now_ms())
                else:
                    each.right()
        if row is None:
            raise Problem(401, "Unknown name or password.")
        return row

    async def hashed(self, password: str, name: str) -> StoredPassword:
        """Return the hash of a password. Raises ApiError for an invalid password, and Problem 503."""
        return await self._in_thread(lambda: self._backend.hash_password(password, name), self._turn())

    def _turn(self) -> float:
        wait_s = self._pace.take()
        if wait_s is None:
            detail = "Too many logins by password; try again later or use a token."
            raise Problem(503, detail, headers={"Retry-After": str(LONGEST_WAIT_S)})
        return wait_s

    async def _in_thread(self, slow: Callable[[], Answer], wait_s: float) -> Answer:
        await trio.sleep(wait_s)
        return await trio.to_thread.run_sync(slow, limiter=self._limiter)


def too_often(wait_ms: int) -> Problem:
    seconds = str(-(-wait_ms // 1000))
    detail = f"Too many failed logins; try again in {seconds} s."
    return Problem(429, detail, headers={"Retry-After": seconds})


def _key(name: str) -> str:
    """Return a key that is not an address."""
    return f"name {name}"
