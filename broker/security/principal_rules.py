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
from typing import Final, Protocol, cast

import msgspec

from broker.errors import ConfigError

KEY: Final = "ssl.principal.mapping.rules"

MAX_RULES: Final = 100
"""Maximum rules per listener; ours."""

MAX_NAME_LENGTH: Final = 8_192
"""Maximum characters of a subject; a longer one matches no rule. Ours."""

_MAX_MEMORY: Final = 1_048_576
"""Maximum bytes of a compiled pattern, including matching; ours. RE2's default is eight times that."""

_RULE: Final = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)"
_ALL = re.compile(rf"\s*(?:{_RULE})\s*(?:[,\n]|\Z)")
_REPLACED = re.compile(r"\\(?P<literal>.)|\$(?P<group>[0-9]+)", re.DOTALL)
_ALLOWED: Final = "DEFAULT or RULE:pattern/replacement/, optionally followed by L or U, separated by commas"


_Groups = re.Match[str]
"""RE2's matches have the interface of Python's."""


class _Pattern(Protocol):
    @property
    def groups(self) -> int: ...

    def fullmatch(self, text: str) -> object | None: ...

    def sub(self, replacement: Callable[[_Groups], str], text: str) -> str: ...


class _Rule(msgspec.Struct, frozen=True):
    pattern: _Pattern | None
    """None: DEFAULT."""

    replacement: Callable[[_Groups], str]
    case: str

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        if not self.pattern.fullmatch(name):
            return None
        mapped = self.pattern.sub(self.replacement, name)
        return {"L": mapped.lower(), "U": mapped.upper()}.get(self.case, mapped)


class PrincipalRules:
    """Mapping rules. Raises ConfigError for invalid rules; `key` is their setting's name."""

    __slots__ = ("_rules", "_text")

    def __init__(self, text: str = "DEFAULT", key: str = KEY) -> None:
        self._text = text.strip()
        self._rules: list[_Rule] = []
        at = 0
        while at < len(self._text):
            match = _ALL.match(self._text, at)
            if match is None:
                raise ConfigError(key, text, _ALLOWED)
            default, pattern, replacement, case = match.groups()
            try:
                compiled = None if default else _compile(pattern)
            except ValueError as error:
                raise ConfigError(key, text, f"a pattern that RE2 supports ({error})") from error
            if len(self._rules) == MAX_RULES:
                raise ConfigError(key, text, f"at most {MAX_RULES} rules")
            groups = compiled.groups if compiled is not None else 0
            self._rules.append(_Rule(compiled, _replacing(replacement or "", groups), case or ""))
            at = match.end()
        if not self._rules:
            raise ConfigError(key, text, _ALLOWED)

    def apply(self, name: str) -> str | None:
        """Return the user's name; None if no rule matches."""
        if len(name) > MAX_NAME_LENGTH:
            return None
        return next((mapped for rule in self._rules if (mapped := rule.apply(name)) is not None), None)


def _compile(pattern: str) -> _Pattern:
    """Compile the pattern. Raises ValueError with RE2's message."""
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_MEMORY
    try:
        return cast(_Pattern, re2.compile(pattern, options))
    except re2.error as error:
        (why,) = error.args
        raise ValueError(why.decode(errors="replace") if isinstance(why, bytes) else str(why)) from error


def _replacing(replacement: str, groups: int) -> Callable[[_Groups], str]:
    """Interpret Java's replacement string. A reference to a missing group stays literal."""

    def replace(match: _Groups) -> str:
        def part(found: re.Match[str]) -> str:
            if found["literal"] is not None:
                return found["literal"]
            number = int(found["group"])
            return (match[number] or "") if number <= groups else found[0]

        return _REPLACED.sub(part, replacement)

    return replace
