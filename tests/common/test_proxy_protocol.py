"""The headers of the PROXY protocol, whole, cut at each byte and in random pieces; and what is none."""

import contextlib
import random
import struct
from typing import Final

import pytest

from broker.common.proxy_protocol import (
    LONGEST_V1,
    LONGEST_V2,
    TELLING,
    Client,
    HeaderDecoder,
    HeaderError,
    HeaderRefusal,
    may_be_header,
)
from tests.support.proxy_protocol import (
    CLIENT,
    LOCAL_COMMAND,
    SIGNATURE,
    TCP4,
    TCP6,
    UNIX,
    head,
    local,
    tlv,
    v1,
    v2,
    with_checksum,
)

V6: Final = ("2001:db8::7", 1)
LONGEST_TCP6: Final = b"PROXY TCP6 " + b"ffff:" * 7 + b"fff1 " + b"ffff:" * 7 + b"ffff 65535 65535\r\n"

HEADERS: Final[dict[str, tuple[bytes, Client | None]]] = {
    "v1 IPv4": (b"PROXY TCP4 192.0.2.7 192.0.2.9 40000 9092\r\n", CLIENT),
    "v1 IPv4, the longest": (
        b"PROXY TCP4 255.255.255.254 255.255.255.255 65535 65535\r\n",
        ("255.255.255.254", 65_535),
    ),
    "v1 IPv6": (b"PROXY TCP6 2001:DB8::7 2001:db8::9 1 9092\r\n", V6),
    "v1 IPv6, the longest": (LONGEST_TCP6, (":".join(["ffff"] * 7 + ["fff1"]), 65_535)),
    "v1 mapped": (b"PROXY TCP6 ::ffff:192.0.2.7 ::1 40000 9092\r\n", CLIENT),
    "v1 port 0": (b"PROXY TCP4 192.0.2.7 192.0.2.9 0 9092\r\n", ("192.0.2.7", 0)),
    "v1 UNKNOWN": (b"PROXY UNKNOWN\r\n", None),
    "v1 UNKNOWN with addresses": (b"PROXY UNKNOWN ffff::1 ffff::2 65535 65535\r\n", None),
    "v1 UNKNOWN of 107 bytes": (b"PROXY UNKNOWN " + b"x" * (107 - 16) + b"\r\n", None),
    "v2 IPv4": (v2(), CLIENT),
    "v2 IPv6": (v2(V6), V6),
    "v2 mapped": (v2(("::ffff:192.0.2.7", 40_000)), CLIENT),
    "v2 over UDP": (head(12, family=0x12) + v2()[16:], CLIENT),
    "v2 AF_UNIX": (head(216, family=UNIX) + bytes(216), None),
    "v2 unspecified": (head(0, family=0), None),
    "v2 unspecified with TLVs": (head(5, family=0) + tlv(4, b"xy"), None),
    "v2 TLVs": (v2(tlvs=tlv(1, b"h2") + tlv(4, b"") + tlv(0xEA, bytes(300))), CLIENT),
    "v2 IPv6 TLVs": (v2(V6, tlv(2, b"weir.example")), V6),
    "v2 checksum": (with_checksum(), CLIENT),
    "v2 checksum before another TLV": (with_checksum(V6, behind=tlv(2, b"weir.example")), V6),
    "LOCAL": (local(), None),
    "LOCAL whose rest has no meaning": (local(b"\xff" * 40), None),
    "LOCAL of an unknown family": (head(1, LOCAL_COMMAND, 0xFF) + b"x", None),
}

REFUSED: Final[dict[str, tuple[bytes, HeaderRefusal]]] = {
    "v1 of 108 bytes": (b"PROXY UNKNOWN " + b"x" * (108 - 16) + b"\r\n", HeaderRefusal.TOO_LONG),
    "v1 without an end": (b"PROXY TCP4" + b" " * 200, HeaderRefusal.TOO_LONG),
    "v1 ended by a line feed alone": (
        b"PROXY TCP4 192.0.2.7 192.0.2.9 40000 9092\n\r\n",
        HeaderRefusal.MALFORMED,
    ),
    "v1 without a family": (b"PROXY \r\n", HeaderRefusal.MALFORMED),
    "v1 of another family": (b"PROXY UDP4 192.0.2.7 192.0.2.9 1 2\r\n", HeaderRefusal.MALFORMED),
    "v1 in lower case": (b"PROXY tcp4 192.0.2.7 192.0.2.9 1 2\r\n", HeaderRefusal.MALFORMED),
    "v1 with two spaces": (b"PROXY TCP4  192.0.2.7 192.0.2.9 1 2\r\n", HeaderRefusal.MALFORMED),
    "v1 with a word too many": (b"PROXY TCP4 192.0.2.7 192.0.2.9 1 2 3\r\n", HeaderRefusal.MALFORMED),
    "v1 with a word too few": (b"PROXY TCP4 192.0.2.7 192.0.2.9 1\r\n", HeaderRefusal.MALFORMED),
    "v1 with a name": (b"PROXY TCP4 localhost 192.0.2.9 1 2\r\n", HeaderRefusal.MALFORMED),
    "v1 with IPv6 as TCP4": (b"PROXY TCP4 ::1 ::1 1 2\r\n", HeaderRefusal.MALFORMED),
    "v1 with IPv4 as TCP6": (b"PROXY TCP6 192.0.2.7 192.0.2.9 1 2\r\n", HeaderRefusal.MALFORMED),
    "v1 with a zone": (b"PROXY TCP6 fe80::1%eth0 ::1 1 2\r\n", HeaderRefusal.MALFORMED),
    "v1 with a leading zero": (b"PROXY TCP4 192.0.02.7 192.0.2.9 1 2\r\n", HeaderRefusal.MALFORMED),
    "v1 with an invalid destination": (b"PROXY TCP4 192.0.2.7 192.0.2 1 2\r\n", HeaderRefusal.MALFORMED),
    "v1 without an address": (b"PROXY TCP4 0.0.0.0 192.0.2.9 1 2\r\n", HeaderRefusal.MALFORMED),
    "v1 port 65536": (b"PROXY TCP4 192.0.2.7 192.0.2.9 65536 2\r\n", HeaderRefusal.MALFORMED),
    "v1 port 01": (b"PROXY TCP4 192.0.2.7 192.0.2.9 01 2\r\n", HeaderRefusal.MALFORMED),
    "v1 port -1": (b"PROXY TCP4 192.0.2.7 192.0.2.9 -1 2\r\n", HeaderRefusal.MALFORMED),
    "v1 without a port": (b"PROXY TCP4 192.0.2.7 192.0.2.9  2\r\n", HeaderRefusal.MALFORMED),
    "v1 port of 5000 digits": (b"PROXY TCP4 1.1.1.1 1.1.1.1 2 " + b"1" * 5_000, HeaderRefusal.TOO_LONG),
    "v1 port of the destination": (b"PROXY TCP4 192.0.2.7 192.0.2.9 1 x\r\n", HeaderRefusal.MALFORMED),
    "v1 not in ASCII": ("PROXY TCP4 192.0.2.7 192.0.2.9 ١ 2\r\n".encode(), HeaderRefusal.MALFORMED),
    "v1 another word": (b"PRODUCE\r\n", HeaderRefusal.MALFORMED),
    "v2 another signature": (SIGNATURE[:11] + b"X" + v2()[12:], HeaderRefusal.MALFORMED),
    "v2 version 1": (head(12, 0x11) + v2()[16:], HeaderRefusal.MALFORMED),
    "v2 version 3": (head(12, 0x31) + v2()[16:], HeaderRefusal.MALFORMED),
    "v2 another command": (head(12, 0x22) + v2()[16:], HeaderRefusal.MALFORMED),
    "v2 another family": (head(12, family=0x41) + v2()[16:], HeaderRefusal.MALFORMED),
    "v2 another transport": (head(12, family=0x13) + v2()[16:], HeaderRefusal.MALFORMED),
    "v2 IPv4 a byte short": (head(11) + v2()[16:-1], HeaderRefusal.MALFORMED),
    "v2 IPv6 a byte short": (head(35, family=TCP6) + bytes(35), HeaderRefusal.MALFORMED),
    "v2 AF_UNIX a byte short": (head(215, family=UNIX) + bytes(215), HeaderRefusal.MALFORMED),
    "v2 a byte too long": (v2(tlvs=b"\x01"), HeaderRefusal.MALFORMED),
    "v2 two bytes too long": (v2(tlvs=b"\x01\x00"), HeaderRefusal.MALFORMED),
    "v2 a TLV a byte too long": (v2(tlvs=struct.pack(">BH", 1, 3) + b"h2"), HeaderRefusal.MALFORMED),
    "v2 a TLV of 65535 bytes": (v2(tlvs=struct.pack(">BH", 1, 65_535) + b"h2"), HeaderRefusal.MALFORMED),
    "v2 without an address": (v2(("0.0.0.0", 1)), HeaderRefusal.MALFORMED),
    "v2 without an IPv6 address": (v2(("::", 1)), HeaderRefusal.MALFORMED),
    "v2 wrong checksum": (with_checksum(wrong=1), HeaderRefusal.CHECKSUM),
    "v2 wrong checksum before another TLV": (
        with_checksum(behind=tlv(2, b"weir.example"), wrong=1 << 31),
        HeaderRefusal.CHECKSUM,
    ),
    "v2 wrong checksum without an address": (
        head(7, family=0) + tlv(3, bytes(4)),
        HeaderRefusal.CHECKSUM,
    ),
    "v2 checksum of 3 bytes": (v2(tlvs=tlv(3, bytes(3))), HeaderRefusal.MALFORMED),
    "v2 checksum of 5 bytes": (v2(tlvs=tlv(3, bytes(5))), HeaderRefusal.MALFORMED),
    "v2 two checksums": (with_checksum(behind=tlv(3, bytes(4))), HeaderRefusal.MALFORMED),
    "a Kafka request": (struct.pack(">ihh", 20, 18, 3) + bytes(16), HeaderRefusal.MISSING),
    "TLS": (bytes.fromhex("16030100c8010000c40303"), HeaderRefusal.MISSING),
    "HTTP": (b"GET / HTTP/1.1\r\n\r\n", HeaderRefusal.MISSING),
    "PUT": (b"PUT / HTTP/1.1\r\n\r\n", HeaderRefusal.MISSING),
}

REST: Final = b"\0\0\0\x0a of the client"


def fed(decoder: HeaderDecoder, pieces: list[bytes]) -> bytes:
    """Feed bytes as they arrive, and return what is left behind the header."""
    seen = b"".join(pieces[:1])
    for index in range(len(pieces)):
        while seen and not decoder.is_complete:
            taken = decoder.belonging(seen)
            assert 0 < taken <= len(seen)
            decoder.feed(seen[:taken])
            seen = seen[taken:]
        seen += pieces[index + 1] if index + 1 < len(pieces) else b""
    return seen


def decoded(pieces: list[bytes]) -> tuple[Client | None, bytes]:
    decoder = HeaderDecoder()
    left = fed(decoder, pieces)
    assert decoder.is_complete
    return decoder.client, left


@pytest.mark.parametrize(("header", "client"), HEADERS.values(), ids=HEADERS)
def test_a_header_names_the_client_whole_by_bytes_and_cut_anywhere(
    header: bytes, client: Client | None
) -> None:
    whole = header + REST
    assert decoded([whole]) == (client, REST)
    assert decoded([whole[at : at + 1] for at in range(len(whole))]) == (client, REST)
    for cut in range(1, len(header)):
        assert decoded([whole[:cut], whole[cut:]]) == (client, REST)


@pytest.mark.parametrize("header", [header for header, _ in HEADERS.values()], ids=HEADERS)
def test_a_cut_header_is_not_complete(header: bytes) -> None:
    for cut in range(len(header)):
        decoder = HeaderDecoder()
        assert fed(decoder, [header[:cut]]) == b""
        assert not decoder.is_complete and decoder.has_begun == (cut > 0)


@pytest.mark.parametrize(("sent", "reason"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_header_is_refused(sent: bytes, reason: HeaderRefusal) -> None:
    with pytest.raises(HeaderError) as caught:
        fed(HeaderDecoder(), [sent])
    assert caught.value.reason is reason


@pytest.mark.parametrize(("sent", "reason"), REFUSED.values(), ids=REFUSED)
def test_it_is_refused_by_single_bytes_too(sent: bytes, reason: HeaderRefusal) -> None:
    with pytest.raises(HeaderError) as caught:
        fed(HeaderDecoder(), [sent[at : at + 1] for at in range(len(sent))])
    # A word that shares one byte with PROXY has begun as a header.
    assert caught.value.reason in (
        reason,
        HeaderRefusal.MALFORMED if reason is HeaderRefusal.MISSING else reason,
    )


@pytest.mark.parametrize("length", [LONGEST_V1 - 1, LONGEST_V1])
def test_a_line_has_107_bytes_at_most(length: int) -> None:
    line = b"PROXY UNKNOWN " + b"x" * (length - 16) + b"\r\n"
    assert len(line) == length and decoded([line]) == (None, b"")
    with pytest.raises(HeaderError):
        decoded([b"PROXY UNKNOWN " + b"x" * (LONGEST_V1 - 15) + b"\r\n"])


@pytest.mark.parametrize("size", [LONGEST_V2 - 1, LONGEST_V2, LONGEST_V2 + 1])
def test_a_header_of_version_2_has_4096_bytes_at_most(size: int) -> None:
    header = v2(tlvs=tlv(4, bytes(size - 31)))
    assert len(header) == size
    if size <= LONGEST_V2:
        assert decoded([header, REST]) == (CLIENT, REST)
        return
    with pytest.raises(HeaderError) as caught:
        fed(HeaderDecoder(), [header[:16]])
    assert caught.value.reason is HeaderRefusal.TOO_LONG, "as soon as its length is known"


def test_a_length_of_65535_is_not_waited_for() -> None:
    with pytest.raises(HeaderError) as caught:
        fed(HeaderDecoder(), [head(65_535)])
    assert caught.value.reason is HeaderRefusal.TOO_LONG


def test_every_flipped_byte_of_a_checksummed_header_is_noticed() -> None:
    header = with_checksum(behind=tlv(2, b"weir.example"))
    for at in range(len(header)):
        changed = header[:at] + bytes((header[at] ^ 0x55,)) + header[at + 1 :]
        try:
            client, _ = decoded([changed + bytes(5_000)])
        except HeaderError:
            continue
        # Of LOCAL, the rest has no meaning; without its type, the checksum is another TLV.
        assert at in (12, 28) and client in (None, CLIENT), at


@pytest.mark.parametrize("seed", range(20))
def test_random_bytes_end_in_a_client_or_a_refusal(seed: int) -> None:
    chance = random.Random(seed)
    starts = [b"", b"PROXY ", b"PROXY TCP4 ", SIGNATURE, head(chance.randrange(100)), v2()[:20], v1()[:30]]
    for _ in range(300):
        sent = chance.choice(starts) + chance.randbytes(chance.randrange(1, 200))
        pieces = []
        while sent:
            size = chance.randrange(1, len(sent) + 1)
            pieces.append(sent[:size])
            sent = sent[size:]
        decoder = HeaderDecoder()
        # Any other exception fails the test.
        with contextlib.suppress(HeaderError):
            fed(decoder, pieces)
        assert decoder.client is None or decoder.is_complete


@pytest.mark.parametrize(
    ("seen", "may"),
    [(b"", True), (b"P", True), (b"PR", True), (b"PROXY TCP4", True), (b"\r", True), (b"\r\n", True),
     (b"PU", False), (b"PA", False), (b"\r\r", False), (b"\0\0", False), (b"\x16\x03", False), (b"G", False)],
)  # fmt: skip
def test_two_bytes_tell_a_header_from_other_protocols(seen: bytes, may: bool) -> None:
    assert may_be_header(seen) is may
    assert TELLING == 2


def test_the_families_of_the_table_are_those_of_the_specification() -> None:
    assert (TCP4, TCP6, UNIX) == (0x11, 0x21, 0x31) and len(SIGNATURE) == 12
