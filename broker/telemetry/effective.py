"""The effective subscription: the sum of all subscriptions that match a client, and its id.

Computed by `manager` for each instance. The id is the same for the same instance and subscription, on every
broker and after every restart, and changes with the subscription.
"""

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from crc32c import crc32c

from broker.telemetry.subscription import ALL_METRICS, DEFAULT_INTERVAL_MS, Subscription


@dataclass(frozen=True, slots=True)
class Effective:
    """Sorted metric prefixes and the interval; (ALL_METRICS,) is all metrics, empty is none."""

    metrics: tuple[str, ...] = ()
    interval_ms: int = DEFAULT_INTERVAL_MS

    def subscription_id(self, instance_id: bytes) -> int:
        """Return a signed 32-bit id. (Kafka: computeSubscriptionId, whose set has Java's order)"""
        text = f"[{', '.join(self.metrics)}]{self.interval_ms}"
        mixed = crc32c(text.encode()) ^ _java_hash(instance_id)
        return mixed - (mixed >> 31 << 32)


def effective_of(subscriptions: Iterable[Subscription], facts: Mapping[str, str | None]) -> Effective:
    """Return all prefixes and the shortest interval of the matching subscriptions, at most the default
    interval.
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
    """Return 16 bytes as Kafka writes them: 22 characters of URL-safe base64."""
    return base64.urlsafe_b64encode(uuid).rstrip(b"=").decode()


def uuid_bytes(text: str) -> bytes:
    """Return the bytes of `uuid_text`. Raises ValueError."""
    uuid = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    if len(uuid) != 16 or uuid_text(uuid) != text:
        raise ValueError(f"invalid client instance id {text!r}: expected 22 characters of URL-safe base64")
    return uuid


def _java_hash(uuid: bytes) -> int:
    """Return Uuid.hashCode: the XOR of the four words."""
    words = (int.from_bytes(uuid[at : at + 4], "big") for at in range(0, 16, 4))
    value = 0
    for word in words:
        value ^= word
    return value
