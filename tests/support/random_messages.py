"""Requests and responses of every API and version with random fields: some as clients and brokers send them,
most as none would.

Used by tests that want no handler, and nothing of the gateway, to fail. Seeded, so what a test finds can be
found again.
"""

import random
from typing import Any, Final

from broker.protocol import codec
from broker.protocol.api_key import ApiKey
from broker.protocol.compile_decode import in_version
from broker.protocol.schema import Message, Struct
from tests.support.produce import batch_of

TEXTS: Final = (
    *(
        "",
        "events",
        "other",
        "__consumer_offsets",
        "group",
        "member-1",
        "1",
        "consumer",
        "range",
        "PLAIN",
        "latest",
    ),
    *(
        "client-id",
        "user",
        "ip",
        "producer_byte_rate",
        "retention.ms",
        "compression.type",
        "../events",
        "ü",
        "x" * 300,
    ),
)
NUMBERS: Final = (0, 1, -1, 2, 3, 5, -2, 7, 100, 10_000, -3, -4)
FLOATS: Final = (0.0, 1.0, -1.0, 1.5, 1_000.0, 1e300, float("nan"), float("inf"))
BITS: Final = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
SHORT_MS: Final = {"max_wait_ms": 5, "rebalance_timeout_ms": 10, "session_timeout_ms": 6_000}
"""Waiting is not what these tests are about."""


class RandomMessages:
    """`ids` are topic ids that exist; more may be added."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.ids = [bytes(16), bytes(range(16))]

    def request(self, key: ApiKey, version: int) -> Message:
        return self._struct(codec.request_class(key), version)

    def response(self, key: ApiKey, version: int) -> Message:
        return self._struct(codec.response_class(key), version)

    def flipped(self, frame: bytes) -> bytes:
        """The frame with a few bits turned over behind its size."""
        changed = bytearray(frame)
        for _ in range(self.rng.randint(1, 3)):
            changed[self.rng.randrange(4, len(changed))] ^= 1 << self.rng.randrange(8)
        return bytes(changed)

    def _struct(self, kind: type[Any], version: int, depth: int = 0) -> Any:
        made = kind()
        for field in in_version(kind, version):
            nullable = field.nullable is not None and version >= field.nullable
            if nullable and self.rng.random() < 0.2:
                value = None
            elif field.array:
                count = self.rng.choice((0, 1, 1, 2, 3)) if depth < 3 else 0
                value = [self._value(field.type, version, depth) for _ in range(count)]
            else:
                value = self._value(field.type, version, depth)
            setattr(made, field.name, SHORT_MS.get(field.name, value))
        return made

    def _value(self, kind: str | type[Struct], version: int, depth: int) -> Any:
        rng = self.rng
        match kind:
            case "bool":
                return rng.random() < 0.5
            case "float64":
                return rng.choice(FLOATS)
            case "string":
                return rng.choice(TEXTS)
            case "uuid":
                return rng.choice(self.ids)
            case "bytes" | "records":
                return rng.choice(
                    (bytes(batch_of(b"x")), b"", rng.randbytes(rng.randint(0, 80)), b"\0user\0secret")
                )
            case "uint16":
                return rng.randrange(65_536)
            case str():
                half = 1 << BITS[kind] - 1
                value = rng.choice((rng.choice(NUMBERS), rng.choice(NUMBERS), rng.choice((-half, half - 1))))
                return max(-half, min(half - 1, value))
        return self._struct(kind, version, depth + 1)
