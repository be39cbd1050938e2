"""Signatures of the records that gateways accept (`__weir_metadata`, `__weir_shares`), and the keys for them.

    weir-signed 1 3f9a0c12 101-5f0c9a77 17 4211 9f86d081...<LF>
    <the value>

The first line has the format's version, the id of the key, the writer, its counter, its position, and
HMAC-SHA-256 as hexadecimal digits over the topic, the record's key, the fields before it and the value.

Who can write to a topic can also write a genuine record once more. Counter and position exclude that without
a clock that gateways would have to agree on:

* a writer, which has another id after each start, counts its records, and a reader accepts each number once;
* the position is the offset up to which the writer has read the topic. A record whose writer had not read
  what the reader itself has read FRESH_MS ago is an old one. So is whatever a writer wrote that the reader
  has forgotten, or never knew.

All gateways of a cluster share the secret keys, from a file or the environment. The first key signs, all of
them verify: so a key is replaced while gateways run. No text, log line or view has more of one than its id.
"""

import hashlib
import hmac
import logging
from collections import Counter, deque
from enum import StrEnum
from pathlib import Path
from typing import Final

import trio

from broker.common.errors import ConfigError
from broker.common.slices import Steps
from broker.config.sections import GatewayConfig
from broker.security.watched_files import CHECK_EVERY_MS, read_setting, stamps

logger = logging.getLogger(__name__)

VERSION: Final = b"1"
MAGIC: Final = b"weir-signed "

MAX_HEAD: Final = 512
"""Bytes of the first line; ours. A longer one is not read."""

MAX_DIGITS: Final = 16
"""Of a counter and a position."""

AT_ONCE: Final = 65_536
"""Bytes between two pauses; ours. They take 0.2 ms on a processor without instructions for SHA-256."""

WINDOW: Final = 64
"""How far behind a writer's last record another one is still accepted: two appends at once can change places.
"""

FRESH_MS: Final = 60_000
"""How far a writer may be behind the reader; ours. A request to the cluster takes 30 s at most."""

MARK_EVERY_MS: Final = 1_000
"""Between two offsets that a reader remembers with their time; ours."""

MAX_WRITERS: Final = 4_096
"""Writers whose counters a reader remembers; ours. Only gateways with a key add one, at each start."""


KEYS: Final = "gateway.cluster.keys"
LOCATION: Final = "gateway.cluster.keys.location"

HIDDEN: Final = "(hidden)"

MIN_KEY: Final = 32
MAX_KEY: Final = 512
"""Characters of a key; ours. `openssl rand -hex 32` prints 64."""

MAX_KEYS: Final = 8
MAX_FILE_BYTES: Final = 65_536

ID_DIGITS: Final = 8


class ClusterKey:
    """`id` names the key in records and log lines, and reveals nothing of `secret`."""

    def __init__(self, secret: bytes) -> None:
        self.secret = secret
        self.id = hashlib.sha256(b"id of a key of Weir's gateways\0" + secret).hexdigest()[:ID_DIGITS]

    def __repr__(self) -> str:
        return f"ClusterKey({self.id})"


class ClusterKeys:
    """The keys of `gateway.cluster.keys` or of the file of `gateway.cluster.keys.location`."""

    def __init__(self, config: GatewayConfig) -> None:
        """Raises ConfigError if there is no key, or one that cannot be used."""
        self._config = config
        self._seen = stamps(self._files())
        self._use(self._read())

    def _use(self, keys: list[ClusterKey]) -> None:
        self.first = keys[0]
        self._by_id = {key.id: key for key in keys}
        self.get = self._by_id.get

    async def follow_file(self) -> None:
        """Read the file again whenever it changes, until cancelled. A file that cannot be used is logged once
        for each change, and the keys before it stay.
        """
        while True:
            await trio.sleep(CHECK_EVERY_MS / 1_000)
            seen = stamps(self._files())
            if seen == self._seen:
                continue
            self._seen = seen
            try:
                self._use(self._read())
            except ConfigError as error:
                logger.warning("cannot use the new keys of the gateways", extra={"reason": str(error)})
                continue
            logger.info(
                "keys of the gateways read again",
                extra={"signs": self.first.id, "verify": ",".join(self._by_id)},
            )

    def _files(self) -> list[Path]:
        name = self._config.cluster_keys_location
        return [Path(name)] if name else []

    def _read(self) -> list[ClusterKey]:
        if not self._config.cluster_keys_location:
            return read_keys(KEYS, self._config.cluster_keys)
        name = str(Path(self._config.cluster_keys_location))
        text = read_setting(LOCATION, name, MAX_FILE_BYTES, "ascii", "not ASCII text")
        return read_keys(LOCATION, text, name)


def read_keys(setting: str, text: str, shown: str = HIDDEN) -> list[ClusterKey]:
    """Return the keys of a text, which has white space or commas between them. Raises ConfigError, which
    shows `shown`.
    """
    words = text.replace(",", " ").split()
    if not 1 <= len(words) <= MAX_KEYS:
        raise ConfigError(setting, shown, f"1 to {MAX_KEYS} keys, and it has {len(words)}")
    for word in words:
        if not MIN_KEY <= len(word) <= MAX_KEY or not word.isascii() or not word.isprintable():
            allowed = (
                f"keys of {MIN_KEY} to {MAX_KEY} printable characters: `openssl rand -hex 32` prints one"
            )
            raise ConfigError(setting, shown, allowed)
    keys = [ClusterKey(word.encode()) for word in words]
    if len({key.id for key in keys}) < len(keys):
        raise ConfigError(setting, shown, "keys that differ from each other")
    return keys


class Refusal(StrEnum):
    """The reason to refuse a record."""

    UNSIGNED = "unsigned"
    SIGNATURE = "signature"
    KEY = "key"
    FORMAT = "format"
    REPLAYED = "replayed"


class RefusedRecord(Exception):  # noqa: N818 - describes the record
    """A record that no gateway has written, or not here, or with a key that is not known."""

    def __init__(self, refusal: Refusal, reason: str) -> None:
        super().__init__(reason)
        self.refusal = refusal


def key_id_of(value: bytes) -> str | None:
    """Return the id of the key that a record claims to be signed with, None for one without a signature."""
    if not value.startswith(MAGIC):
        return None
    fields = value[:MAX_HEAD].split(b" ", 3)
    return fields[2].decode(errors="replace") if len(fields) == 4 else ""


class RefusedCounts:
    """The numbers of refused records of a topic: since the start, and in the last minute."""

    def __init__(self) -> None:
        self.total: Counter[Refusal] = Counter()
        self._seconds: deque[tuple[int, Counter[Refusal]]] = deque()

    def add(self, refusal: Refusal, now_ms: int) -> None:
        self.total[refusal] += 1
        second = now_ms // 1_000
        if not self._seconds or self._seconds[-1][0] != second:
            self._seconds.append((second, Counter()))
        self._seconds[-1][1][refusal] += 1
        self._forget(second)

    def last_minute(self, now_ms: int) -> Counter[Refusal]:
        self._forget(now_ms // 1_000)
        return sum((each for _, each in self._seconds), Counter())

    def _forget(self, second: int) -> None:
        while self._seconds and self._seconds[0][0] <= second - 60:
            self._seconds.popleft()


class Records:
    """Writes and reads the values of one topic's records, here without signatures: ACLs of the cluster
    protect the topics. (gateway.cluster.protection=acl)

    `refused` are the records that are not accepted, counted by the caller; `is_signed` says whether values
    have signatures.
    """

    is_signed = False

    def __init__(self) -> None:
        self.refused = RefusedCounts()

    def sign(self, key: bytes, value: bytes) -> Steps[bytes]:
        """Return the value to append."""
        yield from ()
        return value

    def open(self, key: bytes, value: bytes) -> Steps[bytes]:
        """Return the value that was signed; called once for each record. Raises RefusedRecord."""
        yield from ()
        if value.startswith(MAGIC):
            raise RefusedRecord(Refusal.KEY, "a signed record, and this gateway has no key")
        return value

    def read_up_to(self, offset: int, now_ms: int) -> None:
        """Note that everything before `offset` has been read."""

    def begin_again(self) -> None:
        """Note that the topic is read from its beginning, after it has lost records."""


class SignedRecords(Records):
    """The records of `topic`, signed with the first of `keys` as `writer`."""

    is_signed = True

    def __init__(self, topic: str, writer: str, keys: ClusterKeys) -> None:
        super().__init__()
        self._topic = topic.encode()
        self._writer = writer.encode()
        self._keys = keys
        self._counter = 0
        self._position = 0
        self._writers: dict[bytes, _Window] = {}
        self._marks: deque[tuple[int, int]] = deque()
        self._read_before = 0

    def sign(self, key: bytes, value: bytes) -> Steps[bytes]:
        self._counter += 1
        signer = self._keys.first
        head = b"%b%b %b %b %d %d " % (
            MAGIC,
            VERSION,
            signer.id.encode(),
            self._writer,
            self._counter,
            self._position,
        )
        signature = yield from self._signature(signer, key, head, memoryview(value))
        return b"%b%b\n%b" % (head, signature, value)

    def open(self, key: bytes, value: bytes) -> Steps[bytes]:
        if not value.startswith(MAGIC):
            raise RefusedRecord(Refusal.UNSIGNED, "a record without a signature")
        version = value[:MAX_HEAD].split(b" ", 2)[1]
        if version != VERSION:
            shown = version[:MAX_DIGITS].decode(errors="replace")
            raise RefusedRecord(Refusal.FORMAT, f"a record of format {shown}, and this gateway reads 1")
        end = value.find(b"\n", 0, MAX_HEAD)
        fields = value[: max(end, 0)].split(b" ")
        if len(fields) != 7 or not all(each.isdigit() and len(each) <= MAX_DIGITS for each in fields[4:6]):
            raise RefusedRecord(Refusal.SIGNATURE, "a damaged first line")
        _, _, key_id, writer, counter, position, signature = fields
        signer = self._keys.get(key_id.decode(errors="replace"))
        if signer is None:
            shown = key_id[:MAX_DIGITS].decode(errors="replace")
            raise RefusedRecord(Refusal.KEY, f"a record with the key {shown}, which is not in the keys here")
        head = value[: end - len(signature)]
        expected = yield from self._signature(signer, key, head, memoryview(value)[end + 1 :])
        if not hmac.compare_digest(expected, signature):
            raise RefusedRecord(Refusal.SIGNATURE, "a record with a wrong signature")
        self._accept(writer, int(counter), int(position))
        return value[end + 1 :]

    def read_up_to(self, offset: int, now_ms: int) -> None:
        self._position = max(self._position, offset)
        marks = self._marks
        if not marks or now_ms - marks[-1][0] >= MARK_EVERY_MS:
            marks.append((now_ms, self._position))
        while marks and now_ms - marks[0][0] >= FRESH_MS:
            self._read_before = marks.popleft()[1]

    def begin_again(self) -> None:
        self._position = self._read_before = 0
        self._marks.clear()

    def _accept(self, writer: bytes, counter: int, position: int) -> None:
        """Raises RefusedRecord for a record that was read before, or is an old one."""
        if position < self._read_before:
            raise RefusedRecord(Refusal.REPLAYED, f"an old record of {writer.decode(errors='replace')}")
        window = self._writers.pop(writer, None) or _Window()
        self._writers[writer] = window
        if len(self._writers) > MAX_WRITERS:
            del self._writers[next(iter(self._writers))]
        if not window.accept(counter):
            shown = writer.decode(errors="replace")
            raise RefusedRecord(Refusal.REPLAYED, f"record {counter} of {shown} a second time")

    def _signature(self, signer: ClusterKey, key: bytes, head: bytes, value: memoryview) -> Steps[bytes]:
        # Lengths before what has any: no two records have the same bytes here.
        lengths = b"%d %d %d\n" % (len(self._topic), len(key), len(head))
        mac = hmac.new(signer.secret, b"".join((lengths, self._topic, key, head)), "sha256")
        for begin in range(0, len(value), AT_ONCE):
            if begin:
                yield
            mac.update(value[begin : begin + AT_ONCE])
        return mac.hexdigest().encode()


class _Window:
    """The last counters of a writer. Bit n of `seen` stands for `last` - n."""

    __slots__ = ("last", "seen")

    def __init__(self) -> None:
        self.last = 0
        self.seen = 0

    def accept(self, counter: int) -> bool:
        """Return whether the counter is new."""
        ahead = counter - self.last
        if ahead > 0:
            self.seen = (self.seen << min(ahead, WINDOW) | 1) & ((1 << WINDOW) - 1)
            self.last = counter
            return True
        if ahead <= -WINDOW or self.seen >> -ahead & 1:
            return False
        self.seen |= 1 << -ahead
        return True
