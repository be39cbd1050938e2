"""The built-in receiver: the topic `__weir_client_telemetry`, with every push as received.

Called by `pushes` before a push is read, so the topic has unreadable ones too. The record waits in the
bounded `EventLog` and is written with the broker's events; the format is public: docs/telemetry.md.
"""

from typing import Final

from broker.metadata.image import OUR_TOPICS
from broker.records.build import NewRecord
from broker.records.compression import Codec
from broker.telemetry.effective import uuid_text
from broker.telemetry.push import Push

TOPIC: Final = f"{OUR_TOPICS}client_telemetry"

VERSION: Final = 1
"""The version of the format, in the header `v`. New headers do not change the version."""


def record_of(push: Push, node_id: int) -> NewRecord:
    """Return the record of a push: the payload unchanged as value, headers as text, null if not given."""
    client, instance_id = push.client, uuid_text(push.instance.id)
    headers = {
        "v": str(VERSION),
        "node": str(node_id),
        "client_instance_id": instance_id,
        "client_id": client.client_id,
        "principal": client.principal,
        "address": client.address,
        "software_name": client.software_name,
        "software_version": client.software_version,
        "compression": Codec(push.codec).name.lower(),
        "subscription_id": str(push.subscription_id),
        "terminating": str(push.terminating).lower(),
    }
    return NewRecord(
        instance_id.encode(),
        push.payload,
        push.wall_ms,
        tuple((name, None if text is None else text.encode()) for name, text in headers.items()),
    )
