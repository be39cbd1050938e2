"""Random ids as Kafka writes them. For the metadata: cluster ids and delegation tokens. (Kafka:
Uuid.randomUuid)
"""

import base64
import secrets


def random_id() -> str:
    """Return 16 random bytes in 22 characters, not starting like an option of a command."""
    while True:
        text = base64.urlsafe_b64encode(secrets.token_bytes(16)).rstrip(b"=").decode()
        if not text.startswith("-"):
            return text
