"""JSON as it is sent. Used by everything that answers."""

import json
from typing import Any


def encode(value: Any) -> bytes:
    """Compact JSON; a NaN that slipped through is a bug, not an answer."""
    return json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode()
