"""The ways to a quota beside the browser: the REST API, Kafka's own protocol, and Kafka's command line.

Each sets producer_byte_rate of an entity, or removes it (None). Used by tests/endtoend.
"""

import os
import shutil
import subprocess
from collections.abc import Mapping
from typing import Final

import pytest
import trio

from benchmarks.install import KAFKA_LIBS
from broker.protocol.messages.client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    OpData,
    RequestEntryData,
)
from tests.support.broker_process import BrokerProcess
from tests.support.wire import connect

KEY: Final = "producer_byte_rate"
KAFKA_TYPES: Final = {"user": "users", "client-id": "clients"}

Entity = Mapping[str, str | None]


def set_by_rest(broker: BrokerProcess, entity: Entity, limit: int | None) -> None:
    op = {"key": KEY, "remove": True} if limit is None else {"key": KEY, "value": limit}
    broker.ask("PATCH", "/api/v1/client-quotas", {"entries": [{"entity": dict(entity), "ops": [op]}]})


def set_by_wire(broker: BrokerProcess, entity: Entity, limit: int | None) -> None:
    """AlterClientQuotas, as any Kafka client's administrator sends it."""
    who = [EntityData(kind, name) for kind, name in entity.items()]
    op = OpData(KEY, 0.0 if limit is None else float(limit), limit is None)
    request = AlterClientQuotasRequest([RequestEntryData(who, [op])], False)

    async def ask() -> None:
        client = await connect(int(broker.plain.rpartition(":")[2]))
        async with client.stream:
            answer = await client.ask(request, 1)
        assert [entry.error_code for entry in answer.entries] == [0]

    trio.run(ask)


def set_by_kafka_configs(broker: BrokerProcess, entity: Entity, limit: int | None) -> None:
    """kafka-configs.sh of Apache Kafka, where the benchmarks have fetched it."""
    if not KAFKA_LIBS.is_dir() or shutil.which("java") is None:
        pytest.skip("Apache Kafka's tools are not here; `python -m benchmarks.install kafka` brings them")
    what = ["--delete-config", KEY] if limit is None else ["--add-config", f"{KEY}={limit}"]
    for kind, name in entity.items():
        what += ["--entity-type", KAFKA_TYPES[kind]]
        what += ["--entity-default"] if name is None else ["--entity-name", name]
    command = ["java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{KAFKA_LIBS}/*"]
    command += ["org.apache.kafka.tools.ConfigCommand", "--bootstrap-server", broker.plain, "--alter", *what]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=os.environ)
    assert done.returncode == 0, done.stdout + done.stderr
