"""Settings with where their values come from, and who may sign in. See `views` for units."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    """One place where a value is set; the first in the list is the one that counts."""

    name: str
    value: str | None
    source: int


@dataclass(frozen=True, slots=True)
class ConfigRow:
    """One setting of one resource, as DescribeConfigs answers it. `source` and `type` are Kafka's wire
    numbers.
    """

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
    name: str
    role: str
    changed_at_ms: int
    changed_by: str
