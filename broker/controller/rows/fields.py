"""Types of the fields of rows: what a value means, and how an answer of the console shows it.

webui.tables.answers makes the JSON and the JSON Schema of a row from these types. Without one of them an
`int` is a count, at least 0, a `float` a finite number, and a text has at most 32,767 characters.
"""

from typing import Annotated

from msgspec import Meta

from broker.controller.commands import EntityPairs

Moment = Annotated[int, Meta(extra={"shown": "moment"})]
"""Wall-clock milliseconds since the epoch. An answer has the time as RFC 3339, in a field without `_ms`."""

Measured = Annotated[float, Meta(extra={"shown": "measured"})]
"""A number that can be NaN or infinite, which an answer shows as null."""

Rate = Annotated[float, Meta(ge=0)]

Word = Annotated[str, Meta(max_length=1_024)]
"""A text that is never long."""

AnyText = Annotated[str, Meta(max_length=1_000_000)]
"""A text that can be long, such as the value of a setting."""

Node = Annotated[int, Meta(ge=-1)]
"""A node's id; -1 before it is known."""

Tags = Annotated[tuple[tuple[str, str], ...], Meta(extra={"pairs": ("name", "value")})]
"""Names with values. An answer has an object for each."""

RuleEntity = Annotated[EntityPairs, Meta(extra={"shown": "rule entity"})]
"""The entity of a rule. An answer has one object: `{"user": "alice", "client-id": null}`."""

ShownEntity = Annotated[EntityPairs, Meta(extra={"shown": "entity"})]
"""As `RuleEntity`, or `{}` where a quota callback decides."""

Configs = Annotated[tuple[tuple[str, str], ...], Meta(extra={"shown": "object"})]

Hex = Annotated[bytes, Meta(extra={"shown": "hex"})]


def pairs(first: str, second: str) -> Meta:
    """An answer has an object with these two fields for each pair."""
    return Meta(extra={"pairs": (first, second)})


def one_of(*words: str) -> Meta:
    return Meta(extra_json_schema={"enum": words})


HIDDEN = Meta(extra={"hidden": True})
"""No answer has the field."""

LEFT_OUT = Meta(extra={"left_out": True})
"""An answer has the field only if it is not None."""
