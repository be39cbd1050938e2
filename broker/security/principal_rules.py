"""The user name of a client certificate: its subject as Kafka prints it (RFC 2253), and the rules that map
the subject to a name. (KIP-371; Kafka: SslPrincipalMapper)

    RULE:^CN=([^,]+),OU=ops,.*$/$1/L, DEFAULT

The first rule whose pattern matches the whole subject wins; `DEFAULT` is the subject itself. Called by
security.tls at startup and at a change, and by the network for every connection with a client certificate.

RE2 matches the patterns in time linear in the name: Java's and Python's engines backtrack, so that one
certificate could block the broker. Patterns with lookaround or backreferences, which RE2 does not support,
are rejected. The time also grows with the pattern and with every match that is replaced, so all three are
bounded, and the rules are tried in pieces. The module is imported with the first pattern.
"""

import re
from collections.abc import Callable
from typing import Final

import msgspec

from broker.common.errors import ConfigError
from broker.common.patterns import MAX_COST, Compiled, compiled, cost_of
from broker.common.slices import Steps

KEY: Final = "ssl.principal.mapping.rules"

MAX_RULES: Final = 100
"""Maximum rules per listener; ours."""

MAX_NAME_LENGTH: Final = 8_192
"""Maximum characters of a subject and of a user; a subject that is longer, or whose user would be, matches no
rule. Ours.
"""

MAX_WORK: Final = 393_216
"""Instructions of a pattern times characters of a subject: some 4 ms of one match at worst, at 10 ns each. A
subject that is too long for one of the patterns matches no rule: to skip one could give it another's user.
"""

MAX_PROGRAM: Final = 384
"""Instructions of a pattern, so that every pattern can match 1,024 characters; ours. Kafka's examples have
at most 60.
"""

MAX_REPLACEMENT: Final = 1_024
"""Characters of a replacement; ours."""

MAX_MATCHES: Final = 16
"""Matches that are replaced in one subject; with more, it matches no rule. Ours: most patterns match once."""

_MAX_COST: Final = 2 * MAX_COST
"""Microseconds, roughly, that compiling all rules of a listener may take; ours."""

_RULE: Final = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)"
_ALL = re.compile(rf"\s*(?:{_RULE})\s*(?:[,\n]|\Z)")
_REPLACED = re.compile(r"\\(?P<literal>.)|\$(?P<group>[0-9]+)", re.DOTALL)
_ALLOWED: Final = "DEFAULT or RULE:pattern/replacement/, optionally followed by L or U, separated by commas"


_Groups = re.Match[str]
"""RE2's matches have the interface of Python's."""


class _Rule(msgspec.Struct, frozen=True):
    pattern: Compiled | None
    """None: DEFAULT."""

    replacement: Callable[[_Groups], str]
    case: str

    def replaced(self, name: str, pattern: Compiled) -> Steps[str | None]:
        """Replace every match as Java's replaceAll does; None if there are too many or the result is too
        long. Yields before each match.
        """
        parts: list[str] = []
        length = end = count = 0
        matches = pattern.finditer(name)
        while True:
            yield
            match = next(matches, None)
            if match is None:
                break
            count += 1
            parts += (name[end : match.start()], self.replacement(match))
            length += len(parts[-2]) + len(parts[-1])
            if count > MAX_MATCHES or length > MAX_NAME_LENGTH:
                return None
            end = match.end()
        parts.append(name[end:])
        mapped = "".join(parts)
        if self.case:
            mapped = mapped_case(mapped, str.lower if self.case == "L" else str.upper)
        return mapped if len(mapped) <= MAX_NAME_LENGTH else None


def mapped_case(name: str, change: Callable[[str], str]) -> str:
    """Return a name in lower or upper case. A letter beyond ASCII never becomes one of ASCII, as U+212A, the
    sign of kelvin, would become a k: another user's name could be written with it.
    """
    if name.isascii():
        return change(name)
    return "".join(each if not each.isascii() and _has_ascii(change(each)) else change(each) for each in name)


def _has_ascii(text: str) -> bool:
    return any(each.isascii() for each in text)


class PrincipalRules:
    """Mapping rules. Raises ConfigError for invalid rules; `key` is their setting's name."""

    def __init__(self, text: str = "DEFAULT", key: str = KEY) -> None:
        self._text = text.strip()
        self._rules: list[_Rule] = []
        self.longest = MAX_NAME_LENGTH
        """Characters of the longest subject that can match."""
        if cost_of(self._text) > _MAX_COST:
            raise ConfigError(key, text, "fewer or simpler rules")
        at = 0
        while at < len(self._text):
            match = _ALL.match(self._text, at)
            if match is None:
                raise ConfigError(key, text, _ALLOWED)
            default, pattern, replacement, case = match.groups()
            try:
                made = None if default else compiled(pattern)
            except ValueError as error:
                raise ConfigError(key, text, f"a pattern that RE2 supports ({error})") from error
            if made is not None:
                if made.programsize > MAX_PROGRAM:
                    raise ConfigError(key, text, f"patterns of at most {MAX_PROGRAM} instructions of RE2")
                if len(replacement) > MAX_REPLACEMENT:
                    raise ConfigError(key, text, f"replacements of at most {MAX_REPLACEMENT} characters")
                self.longest = min(self.longest, MAX_WORK // made.programsize)
            if len(self._rules) == MAX_RULES:
                raise ConfigError(key, text, f"at most {MAX_RULES} rules")
            groups = made.groups if made is not None else 0
            self._rules.append(_Rule(made, _replacing(replacement or "", groups), case or ""))
            at = match.end()
        if not self._rules:
            raise ConfigError(key, text, _ALLOWED)

    def apply(self, name: str) -> Steps[str | None]:
        """Return the user's name; None if no rule matches. Yields before more than `MAX_WORK`, which usual
        subjects and rules never need.
        """
        if len(name) > self.longest:
            return None
        left = MAX_WORK
        for rule in self._rules:
            if rule.pattern is None:
                return name
            work = rule.pattern.programsize * len(name)
            if left < work:
                yield
                left = MAX_WORK
            left -= work
            if not rule.pattern.fullmatch(name):
                continue
            replacing = rule.replaced(name, rule.pattern)
            while True:
                try:
                    next(replacing)
                except StopIteration as end:
                    mapped: str | None = end.value
                    return mapped
                if left < work:
                    yield
                    left = MAX_WORK
                left -= work
        return None


def _replacing(replacement: str, groups: int) -> Callable[[_Groups], str]:
    """Interpret Java's replacement string. A reference to a missing group stays literal."""

    def replace(match: _Groups) -> str:
        def part(found: re.Match[str]) -> str:
            if found["literal"] is not None:
                return found["literal"]
            number = int(found["group"][:9])
            return (match[number] or "") if number <= groups else found[0]

        return _REPLACED.sub(part, replacement)

    return replace


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
    """Return the subject's name of a DER certificate, as Java's X500Principal.getName() formats it; "" if it
    is empty.

    The most specific part comes first; an attribute without a short name in RFC 2253 is printed as its OID
    and its encoded value in hexadecimal, and so is the value of a text that cannot be decoded. OpenSSL has
    already parsed every byte in the handshake. Raises ValueError for invalid data.
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
