"""One configuration key, declared beside the field that it fills.

    class FetchConfig:
        max_bytes: int = Setting("fetch.max.bytes", 57_671_680, integer(1024), "bytes").described("...")

`broker.config.table` collects the keys of all sections from their dataclass fields, so each key, default and
range is declared once.
"""

import re
from collections.abc import Iterator
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any, Final, Self

from broker.common.errors import ConfigError
from broker.config.kinds import ConfigKind, trimmed, whole_from

_METADATA_KEY: Final = "setting"
_LINK: Final = re.compile(r"\[([^]]+)]\([^)]+\)")

LISTENER_PREFIX: Final = "listener.name."


@dataclass(frozen=True, slots=True)
class Setting:
    """A key and its properties.

    `also` are other spellings, (key, factor); if `key` is not set, the first one that is set applies,
    multiplied by its factor. `default_spelling` is the one that has the default in Kafka, if it is not
    `key`; with `null_default`, Kafka's default is null. `default_words` describes a default of None.
    `kafka_default` and `why` are set only if our default differs; `ours` marks a key that Kafka does not
    have. `inert` says why a key has no effect; it is accepted with a warning. `dynamic` keys can change
    while the broker runs; `per_broker` keys only for one broker, not as a default of all. `per_listener`
    keys are written `listener.name.<name>.<key>`; `listener_too` keys have both forms. An `internal` key is
    described only where it is set. `stored` are the values that an earlier version took for a topic: they
    stay in force, but cannot be set again.
    """

    key: str
    default: Any
    kind: ConfigKind
    unit: str = ""
    doc: str = ""
    also: tuple[tuple[str, int], ...] = ()
    default_spelling: str = ""
    null_default: bool = False
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
    internal: bool = False
    stored: ConfigKind | None = None

    def described(self, doc: str, *, kafka_default: str | None = None, why: str | None = None) -> Any:
        """Return a dataclass field that is filled from the key, which has this documentation."""
        described = replace(self, doc=doc, kafka_default=kafka_default, why=why)
        return field(default=self.default, metadata={_METADATA_KEY: described}, repr=not self.sensitive)

    def read(self, text: str, *, key: str | None = None) -> Any:
        """Parse `text`. Raises ConfigError with key, value and what is allowed."""
        try:
            return self.kind.read(trimmed(text))
        except ValueError as error:
            value = "(hidden)" if self.sensitive else text
            raise ConfigError(key or self.key, value, self.kind.allowed) from error

    def read_stored(self, text: str, *, key: str) -> Any:
        """Parse `text` from the metadata, which may have been set before the range was narrowed. Raises
        ConfigError.
        """
        return (
            self.read(text, key=key)
            if self.stored is None
            else replace(self, kind=self.stored).read(text, key=key)
        )

    def read_spelling(self, key: str, text: str) -> Any:
        """Parse `text` given under this spelling of the key. Raises ConfigError."""
        factor = dict(self.spellings)[key]
        if factor == 1:
            return self.read(text, key=key)
        try:
            # "-1" means "never" in every unit.
            whole = int(trimmed(text))
            return self.kind.read(str(whole * factor if whole > 0 else whole))
        except ValueError as error:
            raise ConfigError(key, text, self._allowed_times(factor)) from error

    def _allowed_times(self, factor: int) -> str:
        """Return the allowed range of a spelling whose positive values are multiplied by `factor`."""
        if self.kind.bounds is None:
            return f"times {factor} {self.kind.allowed}"
        low, high = self.kind.bounds
        return whole_from(low if low <= 0 else -(-low // factor), high // factor)

    def write(self, value: Any) -> str | None:
        return None if value is None else self.kind.write(value)

    def changes(self, key: str) -> bool:
        """Return whether this spelling can change while the broker runs, as in Kafka only `key` can."""
        return self.dynamic and all(key != other for other, _ in self.also)

    @property
    def reported_default(self) -> tuple[str, str] | None:
        """Return the spelling that has the default, and the default in its unit; None for null."""
        if self.default is None or self.null_default:
            return None
        key = self.default_spelling or self.key
        factor = dict(self.spellings)[key]
        return key, self.kind.write(self.default if factor == 1 else self.default // factor)

    @property
    def documentation(self) -> str:
        """Return `doc` without links, and why the key has no effect if so; for DescribeConfigs."""
        doc = _LINK.sub(r"\1", self.doc)
        return f"{doc} Without effect here: {self.inert}." if self.inert else doc

    @property
    def sensitive(self) -> bool:
        return self.kind.type.name == "PASSWORD"

    @property
    def spellings(self) -> tuple[tuple[str, int], ...]:
        """Return all spellings of the key in order of precedence."""
        return ((self.key, 1), *self.also)


@dataclass(frozen=True, slots=True)
class ListenerSection:
    """A section with keys that can be set for one listener: `overrides` are (listener in upper case, field,
    value).
    """

    overrides: tuple[tuple[str, str, Any], ...] = field(default=(), kw_only=True)

    def for_listener(self, name: str) -> Self:
        """Return the section with this listener's values laid over the common ones."""
        own = {key: value for listener, key, value in self.overrides if listener == name}
        return replace(self, **own) if own else self


def split_listener(key: str) -> tuple[str | None, str]:
    """Split `listener.name.<name>.<key>` into (name in upper case, key); any other key gives (None, key)."""
    if key.startswith(LISTENER_PREFIX):
        name, dot, rest = key[len(LISTENER_PREFIX) :].partition(".")
        if name and dot:
            return name.upper(), rest
    return None, key


def settings_of(section: type) -> Iterator[tuple[Field[Any], Setting]]:
    """Yield the fields of a section that are filled from keys, in declaration order."""
    for each in fields(section):
        if _METADATA_KEY in each.metadata:
            yield each, each.metadata[_METADATA_KEY]
