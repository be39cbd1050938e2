"""Formats the subject of a certificate as Kafka prints a client's principal (RFC 2253).

The format is that of Java's X500Principal.getName(). Called after a TLS handshake with a client certificate,
so OpenSSL has already parsed every byte. The most specific part comes first; an attribute without a short
name in RFC 2253 is printed as its OID and its encoded value in hexadecimal, and so is the value of a text
that cannot be decoded.
"""

from typing import Final

_SHORT: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
"""The keywords of RFC 2253, section 2.3; Java uses no others here."""

_SEQUENCE: Final = 0x30
_VERSION: Final = 0xA0
_STRINGS: Final = {
    12: "utf-8",
    19: "ascii",
    20: "latin-1",
    22: "ascii",
    27: "latin-1",
    28: "utf-32-be",
    30: "utf-16-be",
}
"""UTF8String, PrintableString, T61String, IA5String, GeneralString, UniversalString, BMPString."""

_ESCAPED: Final = frozenset(',=+<>#;"\\')


def subject_of(certificate: bytes) -> str:
    """Return the subject's name of a DER certificate; "" if it is empty.

    Raises ValueError for invalid data.
    """
    try:
        _, start, _ = _element(certificate, 0)
        _, at, end = _element(certificate, start)
        tag, _, after = _element(certificate, at)
        if tag == _VERSION:
            at = after
        for _ in range(4):  # serial number, signature algorithm, issuer, validity
            at = _element(certificate, at)[2]
        tag, start, end = _element(certificate, at)
        if tag != _SEQUENCE:
            raise ValueError("invalid certificate: expected a subject")
        names = [_part(certificate, *part) for part in _elements(certificate, start, end)]
    except IndexError as error:
        raise ValueError("invalid certificate: truncated before its subject") from error
    return ",".join(reversed(names))


def _part(data: bytes, start: int, end: int) -> str:
    return "+".join(_attribute(data, at) for at, _ in _elements(data, start, end))


def _attribute(data: bytes, start: int) -> str:
    """Format an attribute. `start` is the position of its object identifier, which the value follows."""
    _, content, value_at = _element(data, start)
    number = _dotted(data[content:value_at])
    tag, content, end = _element(data, value_at)
    name = _SHORT.get(number, number)
    if number in _SHORT and tag in _STRINGS:
        try:
            return f"{name}={_escaped(data[content:end].decode(_STRINGS[tag]))}"
        except UnicodeDecodeError:
            pass  # with U+FFFD in place of the bytes, as Java prints it, several names would be one
    return f"{name}=#{data[value_at:end].hex()}"


def _escaped(value: str) -> str:
    written = "".join("\\" + c if c in _ESCAPED else c for c in value).replace("\0", "\\00")
    inner = written.strip(" \r")
    if not inner:
        return "".join("\\" + c for c in written)
    head, tail = written.index(inner), len(written.rstrip(" \r"))
    before, after = written[:head], written[tail:]
    return "".join("\\" + c for c in before) + inner + "".join("\\" + c for c in after)


def _dotted(code: bytes) -> str:
    numbers, number = [], 0
    for byte in code:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _elements(data: bytes, start: int, end: int) -> list[tuple[int, int]]:
    """Return the (start, end) of the contents of each element in this range."""
    found = []
    while start < end:
        _, content, start = _element(data, start)
        found.append((content, start))
    return found


def _element(data: bytes, at: int) -> tuple[int, int, int]:
    """Return the tag, and the start and end of the content. Raises IndexError beyond the data."""
    tag, length, at = data[at], data[at + 1], at + 2
    if length & 0x80:
        count = length & 0x7F
        length = int.from_bytes(data[at : at + count], "big")
        at += count
    if at + length > len(data):
        raise IndexError
    return tag, at, at + length
