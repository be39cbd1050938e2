"""The JSON of a quota entity: `{"user": "alice", "client-id": null}`; null is the default entity."""

from typing import Final

from webui.quotas import ENTITY_TYPES
from webui.schema import Record, Text

LONGEST_NAME: Final = 1_024
"""Maximum length of a quota entity's name in characters; control rejects longer names from any origin."""

ENTITY: Final = Record(
    {kind: Text(max_length=LONGEST_NAME, nullable=True) for kind in ENTITY_TYPES},
    optional=frozenset(ENTITY_TYPES),
    min_properties=1,
    title="Entity",
)

ANY_ENTITY: Final = Record(ENTITY.fields, optional=ENTITY.optional)
"""An entity, or {} where a quota callback decides."""
