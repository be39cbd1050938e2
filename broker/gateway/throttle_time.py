"""Finds the throttle time in responses, and raises it.

Called by the gateway for the response to a request that its own quotas throttle: the client must see the
longer one of the upstream broker's throttle time and the gateway's. The places are derived from Kafka's
schemas, for every API, whether or not the codec has its messages; `SINCE` adds the versions that only older
Kafka has. In a version newer than these, and in one without a throttle time, the response stays as it is:
muting the connection has the same effect.

Pure. A damaged frame raises ProtocolViolation.
"""

from functools import lru_cache
from struct import Struct
from typing import Final

from broker.common.errors import ProtocolViolation
from broker.gateway.responses import AT_ONCE, decoded, encoded
from broker.protocol.api_key import NAMES, ApiKey, flexible_from, response_header_version
from broker.protocol.codec import parse_response_header
from broker.protocol.messages import THROTTLE_TIMES
from broker.protocol.schema import Buffer

INT32: Final = Struct(">i")
SINCE: Final[dict[int, int]] = {
    ApiKey.PRODUCE: 1,
    ApiKey.FETCH: 1,
    ApiKey.DESCRIBE_ACLS: 0,
    ApiKey.ALTER_REPLICA_LOG_DIRS: 0,
    ApiKey.DESCRIBE_LOG_DIRS: 0,
    ApiKey.CREATE_DELEGATION_TOKEN: 0,
    ApiKey.RENEW_DELEGATION_TOKEN: 0,
    ApiKey.EXPIRE_DELEGATION_TOKEN: 0,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: 0,
}
"""The first version with a throttle time, if Kafka 4 does not have it any more. It is in the same place."""

KEPT_OFFSETS: Final = 4096
"""Versions of APIs whose places are remembered; ours. Clients may send any."""

PLAIN_END: Final = bytes(5)
"""A throttle time of 0, and no tagged fields."""


@lru_cache(KEPT_OFFSETS)
def throttle_offset(api_key: int, version: int) -> int | None:
    """Return the offset of `throttle_time_ms` in a response without its size, if its header has no tagged
    fields. None if the response has no throttle time, or a layout that is not known.

    From response header version 1 on, byte 4 is 0 if the header has no tagged fields. A negative offset
    counts from the end of the response: -4, or, in a flexible version and only if the body has no tagged
    fields either, -5.
    """
    since, until, offset = THROTTLE_TIMES.get(api_key, (0, -1, 0))
    if not SINCE.get(api_key, since) <= version <= until:
        return None
    if offset < 0:
        return offset - 1 if version >= flexible_from(api_key) else offset
    return 4 + response_header_version(api_key, version) + offset


def throttle_place(frame: Buffer, api_key: int, version: int) -> int:
    """Return where a whole response has its throttle time, as `EncodedResponse` counts, given without its
    size; 0 if it has none, or if tagged fields prevent a change in place.
    """
    offset = throttle_offset(api_key, version)
    if offset is None or len(frame) < abs(offset) + INT32.size:
        return 0
    if offset < 0:
        has_tags = offset == -5 and (api_key == ApiKey.API_VERSIONS or bytes(frame[-5:]) != PLAIN_END)
        return 0 if has_tags else offset
    has_tags = offset > 4 and frame[4] > 0 and response_header_version(api_key, version) > 0
    return 0 if has_tags else INT32.size + offset


def raise_throttle_time(
    frame: bytearray | memoryview, api_key: int, version: int, throttle_time_ms: int
) -> bytes | None:
    """Raise the throttle time of a response without its size to `throttle_time_ms`; a longer one stays.

    Changes the frame in place and returns None, or, where tagged fields prevent this, leaves it and returns
    the new response, whole and with its size. Where `throttle_offset` is not negative, the first bytes of the
    response are enough. Raises ProtocolViolation if the frame is damaged.
    """
    offset = throttle_offset(api_key, version)
    if offset is None:
        return None
    if offset >= 0:
        if offset > 4 and len(frame) > 4 and frame[4] and response_header_version(api_key, version):
            offset += parse_response_header(frame, 1)[1] - 5
    else:
        if offset == -5 and (api_key == ApiKey.API_VERSIONS or bytes(frame[-5:]) != PLAIN_END):
            return _encoded_again(frame, api_key, version, throttle_time_ms)
        offset += len(frame)
    if not 4 <= offset <= len(frame) - 4:
        raise ProtocolViolation(
            f"{NAMES[api_key]} response v{version}: no throttle time in {len(frame)} bytes"
        )
    if INT32.unpack_from(frame, offset)[0] < throttle_time_ms:
        INT32.pack_into(frame, offset, throttle_time_ms)
    return None


def _encoded_again(frame: Buffer, api_key: int, version: int, throttle_time_ms: int) -> bytes | None:
    """Return the response with the longer throttle time; None if it is too large to be decoded at once.

    These are answers of Produce for some 500 partitions: the connection is muted all the same.
    """
    if len(frame) > AT_ONCE:
        return None
    message, correlation_id = decoded(frame, api_key, version)
    message.throttle_time_ms = max(message.throttle_time_ms, throttle_time_ms)
    return encoded(message, version, correlation_id)
