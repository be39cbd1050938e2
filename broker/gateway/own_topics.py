"""The topics `__weir_*`, which only gateways write: how a client's request names them, by name or by id.

`client_receive` looks into every Produce and Fetch, and `apis.own_topics` answers the requests that name one.
The gateway's own requests do not pass through here.
"""

import logging
from collections.abc import Callable
from struct import Struct
from typing import Final

import trio

from broker.api.requests.topics_used import MAX_TOPICS
from broker.common.errors import ErrorCode, ProtocolViolation
from broker.config.sections.broker import EVENTS
from broker.gateway.internal_topics import PREFIX
from broker.gateway.sharing.topic_log import METADATA_TOPIC, SHARES_TOPIC
from broker.gateway.upstream.client import UpstreamClient
from broker.gateway.upstream.errors import UpstreamError
from broker.metadata.image import OUR_TOPICS
from broker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from broker.protocol.schema import ZERO_UUID
from broker.protocol.varint import read_uvarint, skip_tags

logger = logging.getLogger(__name__)

SECRET: Final = (METADATA_TOPIC, SHARES_TOPIC)
"""Topics that clients may not read either: they have digests of passwords, and what other clients do."""

OTHERS: Final = tuple(OUR_TOPICS + each for each in (*EVENTS, "client_telemetry"))

SECRET_NAMES: Final = tuple(name.encode() for name in SECRET)

FIRST_ASKED_S: Final = 0.1
ASKED_EVERY_S: Final = 5.0
"""How soon the gateway asks again if the cluster has not answered, twice as late each time up to how often it
looks for topics that are new; ours.
"""

LANE: Final = "own topics"

IDS_FROM: Final = 13
"""The versions from which Produce and Fetch name topics by id."""

TRANSACTIONAL_FROM: Final = 3
"""The version from which a Produce begins with a transactional id."""

UNKNOWN: Final = "the ids of the gateways' topics are not known yet"

ID_BYTES: Final = 16
INDEX: Final = 4
ACKS_AND_TIMEOUT: Final = 6

MAX_NAME: Final = 0x7FFF
"""Kafka's own limit."""

MAX_REST: Final = 128 * 1024
"""Bytes between two steps through a Produce that are kept until the rest arrives; names and tags of clients
are much smaller.
"""

LONGEST: Final = max(map(len, SECRET)) + ID_BYTES
"""No name or id is longer."""

INT: Final = Struct(">i")
SHORT: Final = Struct(">h")


def is_ours(name: str | None) -> bool:
    """Return whether only gateways may write to the topic."""
    return name is not None and name.startswith(OUR_TOPICS)


def is_secret(name: str | None) -> bool:
    """Return whether only gateways may read the topic."""
    return name in SECRET


class OwnTopics:
    """`ids` are those of all topics `__weir_*` that exist, `secret_ids` those of `SECRET`. `refused_ids` is
    what the first topic id of a usual Fetch must not begin with.

    Until the cluster has been asked, requests with ids are refused if `waits`, by closing their connections.
    """

    def __init__(self, waits: bool = False) -> None:
        self.ids: tuple[bytes, ...] = ()
        self.secret_ids: tuple[bytes, ...] = ()
        self.is_known = not waits
        self.refused_ids: tuple[bytes, ...] = (b"",) if waits else ()
        self.changed: Callable[[], None] = lambda: None
        self._ask_now = trio.Event()

    def learn(self, ids: dict[str, bytes]) -> None:
        """Take the ids of the topics that exist, by name."""
        found = tuple(ids.values())
        is_new = not self.is_known or found != self.ids
        self.is_known = True
        self.ids = found
        self.secret_ids = self.refused_ids = tuple(ids[name] for name in SECRET if name in ids)
        if is_new:
            self.changed()

    def ask_soon(self) -> None:
        """Ask for the ids at once: a topic has been created."""
        self._ask_now.set()

    async def run(self, client: UpstreamClient) -> None:
        """Ask the cluster for the ids, until cancelled."""
        again_s = FIRST_ASKED_S
        while True:
            self._ask_now = trio.Event()
            try:
                self.learn(await _ids(client))
                again_s = ASKED_EVERY_S
            except (UpstreamError, ProtocolViolation) as error:
                logger.debug("the ids of the gateways' topics cannot be read", extra={"reason": str(error)})
                again_s = min(again_s * 2, ASKED_EVERY_S)
            with trio.move_on_after(again_s):
                await self._ask_now.wait()

    def has_id(self, topic_id: bytes) -> bool:
        return topic_id in self.ids

    def has_secret_id(self, topic_id: bytes) -> bool:
        return topic_id in self.secret_ids

    def are_named(self, data: memoryview) -> bool:
        """Return whether some bytes may name one of the topics; if not, they name none."""
        found = bytes(data)
        return not self.is_known or PREFIX in found or any(each in found for each in self.ids)

    def are_fetched(self, data: memoryview, version: int) -> bool:
        """Return whether a Fetch, or a part of it, names a topic that clients may not read. Raises
        ProtocolViolation if the topics cannot be read.
        """
        if version >= IDS_FROM and not self.is_known:
            raise ProtocolViolation(UNKNOWN)
        names = SECRET_NAMES if version < IDS_FROM else self.secret_ids
        if not names:
            return False
        found = bytes(data)
        return any(each in found for each in names)


async def _ids(client: UpstreamClient) -> dict[str, bytes]:
    """Return the ids of the topics that exist. Raises UpstreamError."""
    topics = [MetadataRequestTopic(name=name) for name in (*SECRET, *OTHERS)]
    request = MetadataRequest(topics, allow_auto_topic_creation=False)
    response = await client.request(None, request, lane=LANE)
    return {
        topic.name: bytes(topic.topic_id)
        for topic in response.topics
        if topic.error_code == ErrorCode.NONE and topic.name and topic.topic_id != ZERO_UUID
    }


class FetchTopics:
    """Looks through the parts of a large Fetch as they arrive."""

    __slots__ = ("_own", "_rest", "_version")

    skip: Final = 0
    is_done: Final = False
    is_complete: Final = True

    def __init__(self, version: int, own: OwnTopics, beginning: memoryview) -> None:
        self._own = own
        self._version = version
        self._rest = bytes(beginning[-LONGEST:])

    def find(self, data: memoryview) -> bool:
        """Take the next bytes, and return whether they name a topic that clients may not read."""
        both = self._rest + bytes(data)
        self._rest = both[-LONGEST:]
        return self._own.are_fetched(memoryview(both), self._version)


class ProduceTopics:
    """Looks through the topics of one Produce as its bytes arrive, without its records.

    `skip` are the next bytes that need not be seen, `is_done` says that no more need be: then the
    request `is_complete`. One that ends before is not understood, and must not be forwarded: the broker could
    understand something else. `only` is where the name of the first topic ends in the first bytes, if the
    request has no other one, else 0. `names` are the first topics, or their ids, MAX_TOPICS at most.
    """

    __slots__ = (
        "_flexible",
        "_own",
        "_partitions",
        "_rest",
        "_step",
        "_topics",
        "_version",
        "is_done",
        "names",
        "only",
        "skip",
    )

    def __init__(self, version: int, own: OwnTopics, *, flexible: bool) -> None:
        """Raises ProtocolViolation if the topics cannot be read."""
        if version >= IDS_FROM and not own.is_known:
            raise ProtocolViolation(UNKNOWN)
        self.skip = 0
        self.only = 0
        self.names: list[str | bytes] = []
        self.is_done = False
        self._version = version
        self._flexible = flexible
        self._own = own
        self._rest = b""
        self._step = self._head
        self._topics = -1
        self._partitions = 0

    @property
    def is_complete(self) -> bool:
        return self.is_done

    def find(self, data: memoryview) -> bool:
        """Take the next bytes, of which the first begin with the header's tags. Return whether they name a
        topic that clients may not write to, or cannot be understood.
        """
        if self._rest:
            data = memoryview(self._rest + bytes(data))
        at, end = self.skip, len(data)
        try:
            while not self.is_done and at <= end:
                at = self._step(data, at)
                if at < 0:
                    return True
        except IndexError:  # more must arrive
            pass
        except ProtocolViolation:
            return True
        self.skip = max(at - end, 0)
        self._rest = b"" if self.is_done else bytes(data[at:])
        return len(self._rest) > MAX_REST

    def skipped(self, count: int) -> None:
        """Note that so many bytes of `skip` have passed unseen."""
        self.skip -= count

    # Each step reads what begins at `at`, and returns where the next one begins, or -1 for a topic of ours.
    # Raises IndexError if it has not arrived, and ProtocolViolation for what no client writes.

    def _head(self, data: memoryview, at: int) -> int:
        if self._flexible:
            at = _tags(data, at)
        if self._version >= TRANSACTIONAL_FROM:
            _, at = self._name(data, at)
        self._topics, at = count_at(data, at + ACKS_AND_TIMEOUT, flexible=self._flexible)
        self._step = self._first_topic
        return at

    def _first_topic(self, data: memoryview, at: int) -> int:
        is_only = self._topics == 1
        begin, at = at, self._topic(data, at)
        if is_only and at >= 0:
            self.only = self._name(data, begin)[1] if self._version < IDS_FROM else begin + ID_BYTES
        return at

    def _topic(self, data: memoryview, at: int) -> int:
        if not self._topics:
            self.is_done = True
            return at
        if self._version >= IDS_FROM:
            begin, at = at, at + ID_BYTES
            if at > len(data):
                raise IndexError
            if self._own.has_id(bytes(data[begin:at])):
                return -1
        else:
            begin, at = self._name(data, at)
            if data[begin : min(begin + len(PREFIX), at)] == PREFIX:
                return -1
        name = bytes(data[begin:at])
        self._partitions, at = count_at(data, at, flexible=self._flexible)
        if len(self.names) < MAX_TOPICS:
            self.names.append(name if self._version >= IDS_FROM else name.decode(errors="replace"))
        self._topics -= 1
        self._step = self._partition
        return at

    def _partition(self, data: memoryview, at: int) -> int:
        if not self._partitions:
            at = _tags(data, at) if self._flexible else at
            self._step = self._topic
            return at
        at += INDEX
        if self._flexible:
            length, at = read_uvarint(data, at)
            length -= 1
        else:
            length, at = number_at(data, at, INT), at + INT.size
        self._partitions -= 1
        self._step = self._partition_end
        return at + max(length, 0)

    def _partition_end(self, data: memoryview, at: int) -> int:
        at = _tags(data, at) if self._flexible else at
        self._step = self._partition
        return at

    def _name(self, data: memoryview, at: int) -> tuple[int, int]:
        """Return where a name begins and ends; one that is null is empty here."""
        if self._flexible:
            length, at = read_uvarint(data, at)
            length -= 1
        else:
            length, at = number_at(data, at, SHORT), at + SHORT.size
        end = at + max(length, 0)
        if length > MAX_NAME:
            raise ProtocolViolation(f"a name of {length} bytes")
        if end > len(data):
            raise IndexError
        return at, end


def count_at(data: memoryview, at: int, *, flexible: bool) -> tuple[int, int]:
    """Return the length of an array, -1 for null, and where its elements begin. Raises IndexError if it has
    not arrived, ProtocolViolation.
    """
    if flexible:
        count, at = read_uvarint(data, at)
        return count - 1, at
    return number_at(data, at, INT), at + INT.size


def number_at(data: memoryview, at: int, layout: Struct) -> int:
    """Return a number. Raises IndexError if it has not arrived."""
    if at + layout.size > len(data):
        raise IndexError
    found: int = layout.unpack_from(data, at)[0]
    return found


def _tags(data: memoryview, at: int) -> int:
    """Return where the tags end that begin at `at`."""
    count = data[at]
    at += 1
    if count:
        at = skip_tags(data, at, at + MAX_REST, count)
        if at > len(data):
            raise IndexError
    return at
