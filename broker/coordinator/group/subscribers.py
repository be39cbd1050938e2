"""The subscriptions of a group's members, each held once however many members have it, and their topics.

Used by consumer groups and share groups. A thousand members usually subscribe to the same, which may be ten
thousand names.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from broker.common.slices import Steps
from broker.coordinator.group.consumer.assignment import Topics, metadata_hash

Key = tuple[tuple[str, ...], str]
"""The names, sorted, and the regular expression of a subscription, "" without one."""


class SharedSubscription(NamedTuple):
    """`names` are those that members state, `topics` also those that their expression has selected.
    `resolved_bytes` is the size of `topics` if there is an expression.
    """

    names: tuple[str, ...]
    topics: Collection[str]
    members: int
    resolved_bytes: int


class Subscriptions:
    """The subscriptions of a group. Its parts are immutable, so that a copy costs only dictionaries."""

    __slots__ = ("_by_key", "_counts", "_hashed", "resolved_bytes", "version")

    def __init__(self) -> None:
        self._by_key: dict[Key, SharedSubscription] = {}
        self._counts: dict[str, int] = {}
        self._hashed: tuple[Topics, int] | None = None
        self.resolved_bytes = 0
        """The bytes of topics that expressions have selected."""
        self.version = object()
        """A new object after each change."""

    def copy(self) -> "Subscriptions":
        other = Subscriptions()
        other._by_key, other._counts = dict(self._by_key), dict(self._counts)
        other.resolved_bytes, other.version = self.resolved_bytes, self.version
        other._hashed = self._hashed
        return other

    @property
    def topics(self) -> Mapping[str, int]:
        """The number of subscriptions by topic name."""
        return self._counts

    def metadata_hash(self, topics: Topics) -> Steps[int]:
        """Return `metadata_hash` of the topics. It is computed again after a change of them."""
        known = self._hashed
        if known is None or known[0] is not topics:
            known = self._hashed = topics, (yield from metadata_hash(self._counts, topics))
        return known[1]

    def topics_of(self, names: tuple[str, ...], regex: str | None) -> Collection[str]:
        """Return the topics of a subscription that a member has."""
        return self._by_key[names, regex or ""].topics

    def added_bytes(self, names: tuple[str, ...], regex: str | None, selected: Collection[str]) -> int:
        """Return how many bytes of resolved topics a further member with this subscription adds."""
        if not regex or (names, regex) in self._by_key:
            return 0
        return bytes_of(frozenset(selected).union(names))

    def removed_bytes(self, names: tuple[str, ...], regex: str | None) -> int:
        """Return how many bytes of resolved topics go with a member that has this subscription."""
        known = self._by_key[names, regex or ""]
        return known.resolved_bytes if known.members == 1 else 0

    def add(self, names: tuple[str, ...], regex: str | None, selected: Collection[str]) -> tuple[str, ...]:
        """Count a member's subscription, and return the names as they are held. `selected` are the topics of
        the expression.
        """
        key = names, regex or ""
        known = self._by_key.get(key)
        self.version = object()
        if known is not None:
            self._by_key[key] = known._replace(members=known.members + 1)
            return known.names
        self._put(key, 1, selected)
        return names

    def remove(self, names: tuple[str, ...], regex: str | None) -> None:
        """Discount the subscription of a member that leaves or subscribes to something else."""
        key = names, regex or ""
        known = self._by_key[key]
        self.version = object()
        if known.members > 1:
            self._by_key[key] = known._replace(members=known.members - 1)
        else:
            self._drop(key)

    def select(self, regex: str, selected: Collection[str]) -> None:
        """Replace the topics that an expression has selected."""
        for key, known in list(self._by_key.items()):
            if key[1] == regex:
                self.version = object()
                self._drop(key)
                self._put(key, known.members, selected)

    def _put(self, key: Key, members: int, selected: Collection[str]) -> None:
        names, regex = key
        topics: Collection[str] = names
        if selected:
            topics = frozenset(selected).union(names) if names else selected
        size = bytes_of(topics) if regex else 0
        self._by_key[key] = SharedSubscription(names, topics, members, size)
        self.resolved_bytes += size
        counts, before = self._counts, len(self._counts)
        for topic in topics:
            counts[topic] = counts.get(topic, 0) + 1
        if len(counts) > before:
            self._hashed = None

    def _drop(self, key: Key) -> None:
        known = self._by_key.pop(key)
        self.resolved_bytes -= known.resolved_bytes
        counts, before = self._counts, len(self._counts)
        for topic in known.topics:
            if counts[topic] == 1:
                del counts[topic]
            else:
                counts[topic] -= 1
        if len(counts) < before:
            self._hashed = None


def bytes_of(names: Collection[str]) -> int:
    return len("".join(names).encode())
