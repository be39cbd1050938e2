"""How the subject of a client's certificate becomes the name of its user. (KIP-371; Kafka:
SslPrincipalMapper)

    RULE:^CN=([^,]+),OU=ops,.*$/$1/L, DEFAULT

The first rule whose pattern fits the whole name wins; `DEFAULT` is the name itself. Called by security.tls at
the start, and by the network for every connection with a client certificate.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from broker.errors import ConfigError

KEY: Final = "ssl.principal.mapping.rules"

_RULE: Final = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)"
_ALL = re.compile(rf"\s*(?:{_RULE})\s*(?:[,\n]|\Z)")
_REPLACED = re.compile(r"\\(?P<literal>.)|\$(?P<group>[0-9]+)", re.DOTALL)
_ALLOWED: Final = "DEFAULT, or RULE:pattern/replacement/ with L or U behind it, separated by commas"


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: re.Pattern[str] | None
    """None: DEFAULT."""

    replacement: Callable[[re.Match[str]], str]
    case: str

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        if not self.pattern.fullmatch(name):
            return None
        mapped = self.pattern.sub(self.replacement, name)
        return {"L": mapped.lower(), "U": mapped.upper()}.get(self.case, mapped)


class PrincipalRules:
    """Raises ConfigError for rules that cannot be read; `key` is how their setting was spelled."""

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
                compiled = None if default else re.compile(pattern)
            except re.error as error:
                raise ConfigError(key, text, f"a pattern that can be read ({error})") from error
            groups = compiled.groups if compiled is not None else 0
            self._rules.append(_Rule(compiled, _replacing(replacement or "", groups), case or ""))
            at = match.end()
        if not self._rules:
            raise ConfigError(key, text, _ALLOWED)

    def apply(self, name: str) -> str | None:
        """The user's name; None where no rule fits."""
        return next((mapped for rule in self._rules if (mapped := rule.apply(name)) is not None), None)


def _replacing(replacement: str, groups: int) -> Callable[[re.Match[str]], str]:
    """Java's replacement string. A group that the pattern does not have stands for itself."""

    def replace(match: re.Match[str]) -> str:
        def part(found: re.Match[str]) -> str:
            if found["literal"] is not None:
                return found["literal"]
            number = int(found["group"])
            return (match[number] or "") if number <= groups else found[0]

        return _REPLACED.sub(part, replacement)

    return replace
