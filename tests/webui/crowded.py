"""A whole broker with its console that has as much of everything as one may have, and who asks it.

Ten thousand quota rules, as many ACLs, a thousand topics, one of two thousand partitions, a group that has
read all of them, five thousand clients, three hundred connections, and the trail of how all that came about.
"""

import http.client
import json
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

import trio

from broker.controller.commands import (
    Actor,
    AlterClientQuotas,
    ChangeOrigin,
    ConfigAlteration,
    ConfigOp,
    ConfigResource,
    CreateAcls,
    IncrementalAlterConfigs,
    IssueAdminToken,
    OpType,
    QuotaAlteration,
    QuotaOp,
    ResourceType,
    Role,
)
from broker.controller.delegation_tokens import MAX_RENEWERS, CreateDelegationToken
from broker.protocol.messages.api_versions import ApiVersionsRequest
from broker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from broker.protocol.messages.find_coordinator import FindCoordinatorRequest
from broker.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from broker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from broker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from broker.records.build import NewRecord, build_batch
from broker.records.compression import Codec
from broker.security.acl.acl import Operation
from tests.security.acl.acls import allow
from tests.support.running import RunningBroker, running_broker

ROOT: Final = Actor("root", Role.ADMIN, "127.0.0.1", ChangeOrigin.REST)
WIDE: Final = "wide"
GROUP: Final = "readers"
VALUES: Final = "values"
STRINGS: Final = "strings"
ASSIGNED: Final = "assigned"
"""A group with a member that has `Size.assigned` topics."""

RECORD_PARTITIONS: Final = 20
"""Partitions of WIDE with 600 records of a kilobyte each."""


@dataclass(frozen=True, slots=True)
class Size:
    rules: int = 10_000
    topics: int = 1_000
    partitions: int = 2_000
    clients: int = 5_000
    connections: int = 300
    tokens: int = 50
    subscriptions: int = 50
    acls: int = 10_000
    delegation_tokens: int = 200
    value: int = 63 << 20
    """Bytes of the one record of VALUES; STRINGS has 500 strings of 16 kB, as Avro writes them."""
    assigned: int = 8_000


@dataclass
class Crowded:
    broker: RunningBroker
    host: str
    port: int
    token: str

    async def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        token: str | None = None,
        media: str = "application/json",
    ) -> int:
        """The status. In a thread, on a connection of its own, so that none of it is the broker's time."""
        return await trio.to_thread.run_sync(self._ask, method, path, body, token, media)

    def _ask(self, method: str, path: str, body: bytes | None, token: str | None, media: str) -> int:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=60)
        # The name that browsers are sent to: at the address, every page is a redirect.
        headers = {
            "Host": f"weir-{self.port}.localhost:{self.port}",
            "Authorization": f"Bearer {self.token}" if token is None else token,
        }
        if body is not None:
            headers["Content-Type"] = media
        try:
            # The console answers a body that it refuses before all of it is there, and reads no more.
            with suppress(BrokenPipeError):
                connection.request(method, path, body, headers)
            answer = connection.getresponse()
            if "event-stream" in answer.headers.get("Content-Type", ""):
                answer.read(1_000)
            else:
                answer.read()
            return answer.status
        finally:
            connection.close()


@asynccontextmanager
async def crowded(directory: Path, size: Size) -> AsyncIterator[Crowded]:
    settings = (
        "console.listener=127.0.0.1:0",
        "max.connections.per.ip=100000",
        "request.log.apis=",
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users=User:ANONYMOUS",
        "delegation.token.secret.key=a key",
    )
    async with running_broker(directory, *settings) as broker:
        console = broker.started.console
        assert console is not None
        assert console.token is not None
        host, _, port = console.address.split("//")[1].split("/")[0].partition(":")
        await fill(broker, size)
        yield Crowded(broker, host, int(port), console.token)


async def fill_topics_and_groups(broker: RunningBroker, size: Size) -> None:
    """Make a large value that compresses well, long strings, and a long assignment."""
    client = await broker.connect("assigned")
    topics = [CreatableTopic(name, 1, 1) for name in (VALUES, STRINGS)]
    answer = await client.ask(CreateTopicsRequest(topics, 60_000, False), 5)
    assert not any(each.error_code for each in answer.topics)
    large = NewRecord(b"k", Random(1).randbytes(80_000) + b"y" * size.value, 1_700_000_000_000)
    string = NewRecord(b"k", b"\x80\xfa\x01" + b"x" * 16_000, 1_700_000_000_000)
    for name, batches in ((VALUES, [[large]]), (STRINGS, [[string] * 100] * 5)):
        log = broker.server.partitions.log(name, 0)
        assert log is not None
        for records in batches:
            log.stage(build_batch(records, codec=Codec.ZSTD), now_wall_ms=1_700_000_000_000)
    names = [f"topic-{at}".encode() for at in range(size.assigned)]
    subscription = struct.pack(">hi", 0, 0) + struct.pack(">i", -1)
    assignment = struct.pack(">hi", 0, len(names))
    assignment += b"".join(struct.pack(f">h{len(name)}sii", len(name), name, 1, 0) for name in names)
    protocols = [JoinGroupRequestProtocol("range", subscription)]
    joined = await client.ask(
        JoinGroupRequest(ASSIGNED, 1_800_000, 60_000, "", None, "consumer", protocols), 3
    )
    assigned = [SyncGroupRequestAssignment(joined.member_id, assignment + struct.pack(">i", -1))]
    request = SyncGroupRequest(ASSIGNED, joined.generation_id, joined.member_id, assignments=assigned)
    assert (await client.ask(request, 2)).error_code == 0


async def fill(broker: RunningBroker, size: Size) -> None:
    control = broker.server.control
    rules = [
        QuotaAlteration(
            (("user", f"user-{at}"), ("client-id", f"client-{at}"))
            if at % 3
            else (("client-id", f"client-{at}"),),
            (QuotaOp("producer_byte_rate", 1e6 + at), QuotaOp("consumer_byte_rate", 2e6 + at)),
        )
        for at in range(size.rules - 1_000)
    ]
    rules += [
        QuotaAlteration(
            (("ip", f"10.0.{at // 250}.{at % 250}"),), (QuotaOp("connection_creation_rate", 10.0),)
        )
        for at in range(1_000)
    ]
    for outcome in await control.apply(AlterClientQuotas(tuple(rules)), ROOT):
        assert outcome.ok, outcome
    for at in range(size.subscriptions):
        ops = (
            ConfigOp("metrics", OpType.SET, "org.apache.kafka."),
            ConfigOp("match", OpType.SET, "client_id=a.*"),
        )
        resource = ConfigResource(ResourceType.CLIENT_METRICS, f"subscription-{at}")
        await control.apply(IncrementalAlterConfigs((ConfigAlteration(resource, ops),)), ROOT)
    for at in range(size.tokens):
        await control.apply(IssueAdminToken(f"token-{at}", Role.VIEWER), ROOT)
    renewers = tuple(f"User:renewer-{at}" for at in range(MAX_RENEWERS))
    for at in range(size.delegation_tokens):
        create = CreateDelegationToken(f"User:user-{at}", renewers, -1, broker.server.clock.wall_ms())
        await control.apply(create, ROOT)
    operations = (Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.ALTER)
    acls = (
        allow(operations[at % 4], f"topic-{at // 4}", principal=f"User:user-{at % 100}")
        for at in range(size.acls)
    )
    for outcome in await control.apply(CreateAcls(tuple(acls)), ROOT):
        assert outcome.ok, outcome
    client = await broker.connect()
    topics = [CreatableTopic(f"topic-{at}", 1, 1) for at in range(size.topics)]
    topics.append(CreatableTopic(WIDE, size.partitions, 1))
    answer = await client.ask(CreateTopicsRequest(topics, 60_000, False), 5)
    assert not any(each.error_code for each in answer.topics)
    # Creates the topic of the offsets.
    await client.ask(FindCoordinatorRequest(key=GROUP), 1)
    offsets = [OffsetCommitRequestPartition(at, 0, -1, "") for at in range(size.partitions)]
    topic = OffsetCommitRequestTopic(WIDE, partitions=offsets)
    await client.ask(OffsetCommitRequest(GROUP, topics=[topic]), 7)
    for at in range(RECORD_PARTITIONS):
        log = broker.server.partitions.log(WIDE, at)
        assert log is not None
        for codec in (Codec.NONE, Codec.ZSTD):
            records = [NewRecord(b"a", b"x" * 1_000, 1_700_000_000_000 + at) for _ in range(300)]
            log.stage(build_batch(records, codec=codec), now_wall_ms=1_700_000_000_000)
    await fill_topics_and_groups(broker, size)
    broker.server.partitions.commit()
    for at in range(size.clients):
        client.client_id = f"client-{at}"
        await client.ask(ApiVersionsRequest(), 0)
    for at in range(size.connections):
        await (await broker.connect(f"client-{at}")).ask(ApiVersionsRequest(), 0)


def dumped(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
