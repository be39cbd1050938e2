"""The time that an address or a name must wait before its next guess at a secret.

Part of webui.security.authenticator and webui.security.passwords. The first five wrong guesses are free;
each further one doubles the wait, from one second to one minute. Fifteen minutes without a wrong guess
reset an address.

A guess counts as wrong from the start of its request until its secret is found right. So an unfinished
request counts too, and a request of an address that must wait is refused before its secret is compared. A
right secret removes only its own guess.

Two kinds of request are not guesses, since they reveal nothing new: a wrong secret that the address has
just sent (a scraper with an old token must not lock out an operator behind the same address), and a right
secret that the address has sent before (an attacker behind the same address must not stop the scraper).
Pure: time is an argument.
"""

from collections import OrderedDict
from hashlib import sha256
from ipaddress import IPv6Address, ip_address
from typing import Final

import msgspec

FREE_GUESSES: Final = 5
FIRST_WAIT_MS: Final = 1_000
LONGEST_WAIT_MS: Final = 60_000
FORGET_AFTER_MS: Final = 900_000
MAX_ADDRESSES: Final = 4_096
MAX_REMEMBERED: Final = 8


class Offender(msgspec.Struct):
    """An address that has sent secrets. `guesses` were wrong, the last one at `last_ms`; `open` guesses are
    undecided, the last one begun at `opened_ms`. `wrong` and `right` are hashes of the last secrets sent.
    """

    guesses: int = 0
    last_ms: int = 0
    open: int = 0
    opened_ms: int = 0
    wrong: list[bytes] = msgspec.field(default_factory=list)
    right: list[bytes] = msgspec.field(default_factory=list)

    def wait_ms(self, now_ms: int) -> int:
        forgotten = now_ms - self.last_ms >= FORGET_AFTER_MS
        counted = self.open + (0 if forgotten else self.guesses)
        if counted < FREE_GUESSES:
            return 0
        wait_ms = min(FIRST_WAIT_MS << min(counted - FREE_GUESSES, 16), LONGEST_WAIT_MS)
        since_ms = self.opened_ms if forgotten else self.last_ms
        if self.open:
            since_ms = max(since_ms, self.opened_ms)
        return max(0, since_ms + wait_ms - now_ms)


class Guess:
    """A guess in progress. The first call of a method decides it; later calls have no effect. As a context
    manager it is withdrawn at the end unless decided.
    """

    __slots__ = ("_offender",)

    def __init__(self, offender: Offender) -> None:
        self._offender: Offender | None = offender

    def wrong(self, secret: str | None, now_ms: int) -> None:
        """Count a wrong guess. With `secret` None, repetitions count too."""
        offender = self._end()
        if offender is None:
            return
        if now_ms - offender.last_ms >= FORGET_AFTER_MS:
            offender.guesses, offender.wrong = 0, []
        if secret is not None:
            hashed = _hashed(secret)
            if hashed in offender.right:
                offender.right.remove(hashed)
            if hashed in offender.wrong:
                return
            offender.wrong = [*offender.wrong[1 - MAX_REMEMBERED :], hashed]
        offender.guesses += 1
        offender.last_ms = now_ms

    def __enter__(self) -> "Guess":
        return self

    def __exit__(self, *_: object) -> None:
        self.withdraw()

    def right(self, secret: str | None = None) -> None:
        """Remove this guess only."""
        offender = self._end()
        if offender is not None and secret is not None:
            hashed = _hashed(secret)
            others = [each for each in offender.right if each != hashed]
            offender.right = [*others[1 - MAX_REMEMBERED :], hashed]

    def withdraw(self) -> None:
        """Remove a guess whose request ended before its secret was compared."""
        self._end()

    def _end(self) -> Offender | None:
        offender, self._offender = self._offender, None
        if offender is not None:
            offender.open -= 1
        return offender


class GuessBackoff:
    """A bounded table of the addresses that have sent secrets. The least recent address is evicted."""

    __slots__ = ("_offenders",)

    def __init__(self) -> None:
        self._offenders: OrderedDict[str, Offender] = OrderedDict()

    def wait_ms(self, address: str, now_ms: int, secret: str | None = None) -> int:
        """Return the milliseconds to wait before a guess, 0 for none. `secret` is the one to be sent, if
        known.
        """
        offender = self._offenders.get(network_of(address))
        if offender is None:
            return 0
        if secret is not None and offender.right and _hashed(secret) in offender.right:
            return 0
        return offender.wait_ms(now_ms)

    def begin(self, address: str, now_ms: int) -> Guess:
        """Count an undecided guess. The caller has checked `wait_ms`, and ends the guess."""
        key = network_of(address)
        offender = self._offenders.get(key)
        if offender is None:
            offender = self._offenders[key] = Offender()
            if len(self._offenders) > MAX_ADDRESSES:
                self._offenders.popitem(last=False)
        else:
            self._offenders.move_to_end(key)
        offender.open += 1
        offender.opened_ms = now_ms
        return Guess(offender)


def network_of(address: str) -> str:
    """Return the address as it is counted: an IPv6 host owns its whole /64."""
    if ":" not in address:
        return address
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address):
        mapped = parsed.ipv4_mapped
        return parsed.packed[:8].hex() if mapped is None else str(mapped)
    return address


def _hashed(secret: str) -> bytes:
    return sha256(secret.encode("utf-8", "surrogatepass")).digest()
