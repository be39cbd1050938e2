"""Maps the subject of a client certificate to a user name. (KIP-371; Kafka: SslPrincipalMapper)

    RULE:^CN=([^,]+),OU=ops,.*$/$1/L, DEFAULT

The first rule whose pattern matches the whole name wins; `DEFAULT` is the name itself. Called by security.tls
at startup and at a change, and by the network for every connection with a client certificate.

RE2 matches the patterns in time linear in the name: Java's and Python's engines backtrack, so that one
certificate could block the broker. Patterns with lookaround or backreferences, which RE2 does not support,
are rejected. The module is imported with the first pattern.
"""

import re
from collections.abc import Callable
from typing import Final

import msgspec

from broker.errors import ConfigError
from broker.patterns import MAX_COST, Compiled, compiled, cost_of

KEY: Final = "ssl.principal.mapping.rules"

MAX_RULES: Final = 100
"""Maximum rules per listener; ours."""

MAX_NAME_LENGTH: Final = 8_192
"""Maximum characters of a subject; a longer one matches no rule. Ours."""

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

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        if not self.pattern.fullmatch(name):
            return None
        mapped = self.pattern.sub(self.replacement, name)
        if not self.case:
            return mapped
        change = str.lower if self.case == "L" else str.upper
        return mapped_case(mapped, change)


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

    __slots__ = ("_rules", "_text")

    def __init__(self, text: str = "DEFAULT", key: str = KEY) -> None:
        self._text = text.strip()
        self._rules: list[_Rule] = []
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
            if len(self._rules) == MAX_RULES:
                raise ConfigError(key, text, f"at most {MAX_RULES} rules")
            groups = made.groups if made is not None else 0
            self._rules.append(_Rule(made, _replacing(replacement or "", groups), case or ""))
            at = match.end()
        if not self._rules:
            raise ConfigError(key, text, _ALLOWED)

    def apply(self, name: str) -> str | None:
        """Return the user's name; None if no rule matches."""
        if len(name) > MAX_NAME_LENGTH:
            return None
        return next((mapped for rule in self._rules if (mapped := rule.apply(name)) is not None), None)


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
