"""What all subscriptions that match a client come to together, and the number that stands for it.

Worked out by `manager` for each instance. The number is the same for the same instance and subscription, on
every broker and after every restart, and another one when the subscription is another.
"""

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from crc32c import crc32c

from broker.telemetry.subscription import ALL_METRICS, DEFAULT_INTERVAL_MS, Subscription


@dataclass(frozen=True, slots=True)
class Effective:
    """`metrics` are prefixes, sorted; (ALL_METRICS,) is all, and none is none."""

    metrics: tuple[str, ...] = ()
    interval_ms: int = DEFAULT_INTERVAL_MS

    def subscription_id(self, instance_id: bytes) -> int:
        """A signed 32-bit number. (Kafka: computeSubscriptionId, whose set of prefixes has Java's order)"""
        text = f"[{', '.join(self.metrics)}]{self.interval_ms}"
        mixed = crc32c(text.encode()) ^ _java_hash(instance_id)
        return mixed - (mixed >> 31 << 32)


def effective_of(subscriptions: Iterable[Subscription], facts: Mapping[str, str | None]) -> Effective:
    """All prefixes, at the shortest interval, of the subscriptions that match; never longer than without
    one.
    """
    prefixes: set[str] = set()
    interval_ms = DEFAULT_INTERVAL_MS
    for subscription in subscriptions:
        if subscription.matches(facts):
            prefixes |= subscription.metrics
            interval_ms = min(interval_ms, subscription.interval_ms)
    if ALL_METRICS in prefixes:
        prefixes = {ALL_METRICS}
    return Effective(tuple(sorted(prefixes)), interval_ms)


def uuid_text(uuid: bytes) -> str:
    """16 bytes as Kafka writes them: 22 characters of URL-safe base64."""
    return base64.urlsafe_b64encode(uuid).rstrip(b"=").decode()


def uuid_bytes(text: str) -> bytes:
    """The inverse. Raises ValueError."""
    uuid = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    if len(uuid) != 16 or uuid_text(uuid) != text:
        raise ValueError(f"{text!r} is not a client instance id")
    return uuid


def _java_hash(uuid: bytes) -> int:
    """Uuid.hashCode: the four words, each XOR the others."""
    words = (int.from_bytes(uuid[at : at + 4], "big") for at in range(0, 16, 4))
    value = 0
    for word in words:
        value ^= word
    return value
