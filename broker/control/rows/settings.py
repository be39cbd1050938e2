"""Settings with their sources, and admin tokens. See `views` for units."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    """One source of a value; the first in the list is in force."""

    name: str
    value: str | None
    source: int


@dataclass(frozen=True, slots=True)
class ConfigRow:
    """One setting of one resource, as in DescribeConfigs. `source` and `type` are Kafka's wire numbers."""

    name: str
    value: str | None
    source: int
    type: int
    read_only: bool
    sensitive: bool
    documentation: str
    synonyms: tuple[ConfigSynonym, ...] = ()

    @property
    def is_default(self) -> bool:
        return self.source == 5


@dataclass(frozen=True, slots=True)
class TokenRow:
    """`version` changes with every change of the token; `expires_at_ms` None: never; `password_at_ms` is when
    its password was set, None without one.
    """

    name: str
    role: str
    changed_at_ms: int
    changed_by: str
    version: int
    expires_at_ms: int | None = None
    password_at_ms: int | None = None

    def has_expired(self, now_ms: int) -> bool:
        """`now_ms` is wall-clock."""
        return self.expires_at_ms is not None and now_ms >= self.expires_at_ms
