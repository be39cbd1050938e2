"""One key of the configuration, written beside the field that it fills.

    class FetchConfig:
        max_bytes: int = setting("fetch.max.bytes", 57_671_680, integer(1024), unit="bytes", doc="...")

`broker.config.table` collects the keys of all rooms from their dataclass fields, so a key, its default, its
range and its words are written once. Knows nothing of files or of rooms.
"""

from collections.abc import Iterator
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any, Final, Self

from broker.config.kinds import Kind, whole_from
from broker.errors import ConfigError

_METADATA_KEY: Final = "setting"

LISTENER_PREFIX: Final = "listener.name."


@dataclass(frozen=True, slots=True)
class Setting:
    """`also` are coarser or older spellings, (key, factor): used, multiplied by the factor, where `key`
    itself is not set.

    `default_words` says what holds where the default is None. `kafka_default` and `why` are there only where
    our default is another one; `ours` marks a key that Kafka does not have. `inert` says why a key has no
    effect here; it is accepted with a warning. `dynamic`: may be changed while the broker runs; `per_broker`:
    for one broker only, never as the default of all.
    `per_listener`: is written `listener.name.<name>.<key>`; `listener_too`: may be.
    """

    key: str
    default: Any
    kind: Kind
    doc: str
    unit: str = ""
    also: tuple[tuple[str, int], ...] = ()
    topic_key: str | None = None
    dynamic: bool = False
    per_broker: bool = False
    ours: bool = False
    per_listener: bool = False
    listener_too: bool = False
    kafka_default: str | None = None
    why: str | None = None
    inert: str = ""
    default_words: str = "nothing"

    def read(self, text: str, *, key: str | None = None) -> Any:
        """Raises ConfigError with key, value and what is allowed."""
        try:
            return self.kind.read(text.strip())
        except ValueError as error:
            shown = "(hidden)" if self.sensitive else text
            raise ConfigError(key or self.key, shown, self.kind.allowed) from error

    def read_spelling(self, key: str, text: str) -> Any:
        """The value that `text` gives the field under this one of its spellings. Raises ConfigError."""
        factor = dict(self.spellings)[key]
        if factor == 1:
            return self.read(text, key=key)
        try:
            # "-1" means "never" in every unit.
            whole = int(text.strip())
            return self.kind.read(str(whole * factor if whole > 0 else whole))
        except ValueError as error:
            raise ConfigError(key, text, self._allowed_times(factor)) from error

    def _allowed_times(self, factor: int) -> str:
        """What a spelling may be whose values, above 0, are multiplied by `factor`."""
        if self.kind.bounds is None:
            return f"times {factor} {self.kind.allowed}"
        low, high = self.kind.bounds
        return whole_from(low if low <= 0 else -(-low // factor), high // factor)

    def write(self, value: Any) -> str | None:
        return None if value is None else self.kind.write(value)

    @property
    def documentation(self) -> str:
        """`doc`, and that the key has no effect where that is so; for DescribeConfigs."""
        return f"{self.doc} Without effect here: {self.inert}." if self.inert else self.doc

    @property
    def sensitive(self) -> bool:
        return self.kind.type.name == "PASSWORD"

    @property
    def spellings(self) -> tuple[tuple[str, int], ...]:
        """The keys that fill the field, the one that wins first."""
        return ((self.key, 1), *self.also)


@dataclass(frozen=True, slots=True)
class ListenerSection:
    """A room some of whose keys may be set for one listener: `overrides` are (listener in capitals, field,
    value).
    """

    overrides: tuple[tuple[str, str, Any], ...] = field(default=(), kw_only=True)

    def for_listener(self, name: str) -> Self:
        """The room as this listener sees it: its own values over the common ones."""
        own = {key: value for listener, key, value in self.overrides if listener == name}
        return replace(self, **own) if own else self


def split_listener(key: str) -> tuple[str | None, str]:
    """`listener.name.<name>.<key>` as (name in capitals, key); any other key as (None, key)."""
    if key.startswith(LISTENER_PREFIX):
        name, dot, rest = key[len(LISTENER_PREFIX) :].partition(".")
        if name and dot:
            return name.upper(), rest
    return None, key


def setting(key: str, default: Any, kind: Kind, doc: str, **more: Any) -> Any:
    """A dataclass field that is filled from `key`; `more` are the other fields of `Setting`."""
    described = Setting(key, default, kind, doc, **more)
    return field(default=default, metadata={_METADATA_KEY: described}, repr=not described.sensitive)


def settings_of(section: type) -> Iterator[tuple[Field[Any], Setting]]:
    """The fields of a room that are filled from keys, in the order in which they are written."""
    for each in fields(section):
        if _METADATA_KEY in each.metadata:
            yield each, each.metadata[_METADATA_KEY]
