"""Rows as the broker's views answer them, with something sensible in every field."""

from typing import Any

from msgspec.structs import replace

from broker.controller.commands import Actor
from broker.controller.rows.broker import AuditEntry, BrokerMetrics, Owned, TaskRow
from broker.controller.rows.connections import (
    AddressUse,
    ConnectionLimitRow,
    ConnectionRow,
    Flow,
    SelectorRow,
    ThrottledRow,
)
from broker.controller.rows.streams_groups import (
    EndpointRow,
    InternalTopicRow,
    MemberTaskRow,
    StatusRow,
    StreamsGroupRow,
    StreamsMemberRow,
    SubtopologyRow,
    TopologyRow,
)
from broker.controller.rows.topics import (
    CommittedRow,
    GroupDetail,
    GroupRow,
    MemberRow,
    TopicRow,
    TransactionDetail,
    TransactionPartition,
    TransactionRow,
)
from broker.controller.rows.upstream import (
    LoopbackAdvertised,
    NodeAddress,
    UpstreamCondition,
    UpstreamLatency,
    UpstreamNodeRow,
    UpstreamRow,
)
from broker.metadata.changes import ACL_IS_SET, QUOTA_KINDS, read_pairs
from broker.quotas.kinds import QuotaKind
from broker.security.acl.acl import Acl, entity_of, key_of

NOW_MS = 1_800_000_000_000


def idle_flow(**changes: Any) -> Flow:
    """Nothing is held up."""
    selector = SelectorRow("data-plane-kafka-network-thread-1-PLAINTEXT-PLAINTEXT-0", 4, 1)
    return replace(Flow(0.0, 0.0, 0, 0, 1, None, None, 0, 0, 500, 0, (selector,)), **changes)


def broker_metrics(**changes: Any) -> BrokerMetrics:
    return replace(
        BrokerMetrics(
            uptime_ms=61_000,
            bytes_in_total=0,
            bytes_out_total=0,
            requests_total=0,
            bytes_in_per_s=0.0,
            bytes_out_per_s=0.0,
            requests_per_s=0.0,
            connections=0,
            throttled=0,
            groups=0,
            processor_idle=1.0,
            handler_idle=1.0,
            acceptor_blocked=0.0,
            memory_pool_used=0,
            memory_pool_size=None,
        ),
        **changes,
    )


def connection(client_id: str, principal: str = "ANONYMOUS", index: int = 0, **changes: Any) -> ConnectionRow:
    row = ConnectionRow(
        connection_id=f"127.0.0.1:9092-10.0.0.7:{40_000 + index}-0-{index}",
        listener="PLAINTEXT",
        protocol="PLAINTEXT",
        principal=principal,
        client_id=client_id,
        software_name="apache-kafka-java",
        software_version="4.1.1",
        address="10.0.0.7",
        opened_at_ms=NOW_MS - 60_000,
        requests=12,
        bytes_in=4_000,
        bytes_out=2_000,
        mute_state="not_muted",
    )
    return replace(row, **changes)


def throttled(client_id: str = "greedy", **changes: Any) -> ThrottledRow:
    row = ThrottledRow(
        connection_id="127.0.0.1:9092-10.0.0.7:40000-0-0",
        client_id=client_id,
        principal="ANONYMOUS",
        address="10.0.0.7",
        quota_type=QuotaKind.PRODUCE,
        entity=(("client-id", client_id),),
        observed=3_300_000.0,
        bound=1_000_000.0,
        throttle_ms=2_300,
        remaining_ms=1_700,
        since_ms=600,
        times=4,
    )
    return replace(row, **changes)


def task(name: str, kind: str = "handler", **changes: Any) -> TaskRow:
    row = TaskRow(name, kind, "handlers", 1, (), None, 1, NOW_MS - 90_000)
    return replace(row, **changes)


def tasks() -> list[TaskRow]:
    """A small broker's."""
    network = "data-plane-kafka-network-thread-1-PLAINTEXT-PLAINTEXT-0"
    acceptor = "data-plane-kafka-socket-acceptor-PLAINTEXT-PLAINTEXT-9092"
    requests, connections = Owned("requests", 3, 500, 212), Owned("connections", 1_240)
    accepted = Owned("accepted sockets", 19, 20, 20)
    return [
        task("broker", "nursery", parent=None, depth=0, idle=0.62),
        task("storage", "nursery", parent="broker", depth=1),
        task("log-flusher", "storage", parent="storage", depth=2),
        task("timers", "nursery", parent="storage", depth=2),
        task("ExpirationReaper-1-Fetch", "reaper", parent="timers", depth=3, owns=(Owned("waiting", 12),)),
        task("handlers", "nursery", parent="timers", depth=3, owns=(requests,)),
        task("data-plane-kafka-request-handler-0", depth=4, idle=0.41),
        task("data-plane-kafka-request-handler-1", depth=4, idle=0.97),
        task("console", "nursery", parent="handlers", depth=4),
        task("admin-web-server", "console", parent="console", depth=5),
        task("processors", "nursery", parent="console", depth=5),
        task("listener-PLAINTEXT", "listener", parent="processors", depth=6),
        task(
            network,
            "processor",
            parent="listener-PLAINTEXT",
            depth=7,
            idle=0.15,
            owns=(connections, accepted),
        ),
        task(f"{network}-idle-expiry", "reaper", parent=network, depth=8),
        task("acceptors", "nursery", parent="processors", depth=6),
        task(acceptor, "acceptor", parent="acceptors", depth=7),
    ]


def use(address: str, rate: float = 0.5, **changes: Any) -> AddressUse:
    return replace(AddressUse(address, rate, 3, None, 40, 0, 0), **changes)


def limits() -> list[ConnectionLimitRow]:
    """No client is limited."""
    return [
        ConnectionLimitRow("", 12, None, 1.5, None, ()),
        ConnectionLimitRow("PLAINTEXT", 12, None, 1.5, None, ()),
    ]


def change(seq: int, by: Actor, **changes: Any) -> AuditEntry:
    """One of the trail: a limit that an editor set for a client."""
    row = AuditEntry(
        seq=seq,
        batch=seq,
        time_ms=NOW_MS,
        actor=by.name,
        role=by.role.name.lower(),
        address=by.address,
        origin=by.origin.value,
        kind="client-quota",
        entity='[["client-id", "app"]]',
        key="producer_byte_rate",
        old=None,
        new="1000000",
        quota=None,
        final=None,
    )
    row = replace(row, **changes)
    return replace(row, quota=read_pairs(row.entity) if row.kind in QUOTA_KINDS else None)


def acl_change(seq: int, by: Actor, acl: Acl) -> AuditEntry:
    """One of the trail: an ACL that was created."""
    return change(seq, by, kind="acl", entity=entity_of(acl), key=key_of(acl), new=ACL_IS_SET)


def topic(name: str, partitions: int = 3, **changes: Any) -> TopicRow:
    row = TopicRow(name, bytes(16), partitions, False, 3_000_000, 6_000, (("retention.ms", "86400000"),))
    kept = {"cleanup": "delete", "retention_ms": 86_400_000, "retention_bytes": -1}
    return replace(row, **kept | changes)


def transaction(
    name: str,
    state: str = "Ongoing",
    *,
    topic: str = "orders",
    holds: bool = True,
    client: str = "payments-1",
) -> TransactionDetail:
    is_open = state == "Ongoing"
    row = TransactionRow(
        *(name, state, 4_711, 3, 60_000, int(is_open), int(is_open and holds)),
        *("User:payments", client, "10.0.0.7", NOW_MS - 42_000 if is_open else None, NOW_MS - 42_000),
    )
    partition = TransactionPartition(topic, 0, 1_200, 1_200, 1_450 if holds else 1_200, holds)
    return TransactionDetail(row, (partition,) if is_open else ())


def group(name: str, *clients: str, lag: int = 40, topic: str = "orders") -> GroupDetail:
    """One partition of a topic for each client, and one more that is up to date."""
    members = tuple(
        MemberRow(f"{client}-1f0c", None, client, "10.0.0.7", ((topic, index),))
        for index, client in enumerate(clients)
    )
    offsets = (
        *(CommittedRow(topic, index, 960, 960 + lag, lag) for index in range(len(clients))),
        CommittedRow(topic, len(clients), 1_000, 1_000, 0),
    )
    state = "Stable" if clients else "Empty"
    row = GroupRow(name, state, "consumer", len(clients), lag * len(clients))
    return GroupDetail(row, "range" if clients else "", members, offsets)


def streams_group(
    name: str, *clients: str, topology: TopologyRow | None = None, status: StatusRow | None = None
) -> GroupDetail:
    """Two members of one process for each client, with a task that moves from the first to the second."""
    members = []
    for client in clients:
        for thread in range(2):
            kept = tuple(MemberTaskRow("0", index, "active", "active") for index in (thread, thread + 2))
            roles = (None, "active") if thread else ("active", None)
            standby = MemberTaskRow("1", 1 - thread, "standby", "standby", 900, 1_000)
            streams = StreamsMemberRow(
                f"process-{client}",
                1,
                EndpointRow(f"{client}.example", 8_443),
                (("zone", "a"),),
                (
                    *kept,
                    MemberTaskRow("1", thread, "standby", "active"),
                    standby,
                    MemberTaskRow("2", 0, *roles),
                ),
            )
            read = tuple(("orders", task.partition) for task in kept)
            members.append(MemberRow(f"{client}-{thread}", None, client, "/10.0.0.7", read, streams))
    state = "NotReady" if status else "Reconciling" if members else "Empty"
    row = GroupRow(name, state, "streams", len(members), 40, "streams")
    offsets = (CommittedRow("orders", 0, 960, 1_000, 40),)
    return GroupDetail(row, "sticky", tuple(members), offsets, StreamsGroupRow(topology, status))


def subtopology(number: int, *sources: str, **changes: Any) -> SubtopologyRow:
    """One with four tasks that reads topics."""
    return replace(SubtopologyRow(str(number), 4, sources, (), (), ()), **changes)


def word_count(source: str = "orders", application: str = "word-count") -> TopologyRow:
    """Two subtopologies, connected by a repartition topic, and one beside them."""
    repartition, changelog = f"{application}-counts-repartition", f"{application}-counts-changelog"
    counts = subtopology(
        1,
        repartition_source_topics=(InternalTopicRow(repartition, 4),),
        changelog_topics=(InternalTopicRow(changelog, 4),),
    )
    splits = subtopology(0, source, repartition_sink_topics=(repartition,))
    return TopologyRow(1, (splits, counts, subtopology(2, "clicks", tasks=1)))


def upstream_node(node_id: int = 1, **changes: Any) -> UpstreamNodeRow:
    row = UpstreamNodeRow(
        node_id=node_id,
        address=f"kafka-{node_id}.example:9092",
        rack="rack-a",
        condition=UpstreamCondition.CONNECTED,
        since_at_ms=NOW_MS - 3_600_000,
        error="",
        latency_ms=1.25,
        connections=12,
        bytes_in=4_000_000,
        bytes_out=9_000_000,
        bytes_in_per_s=250_000.0,
        bytes_out_per_s=1_500_000.0,
        addresses=(NodeAddress("PLAINTEXT", f"gateway.example:{31_000 + node_id}", is_open=True),),
    )
    return replace(row, **changes)


def upstream(*nodes: UpstreamNodeRow, **changes: Any) -> UpstreamRow:
    """A cluster where all is well, of three nodes unless they are given."""
    row = UpstreamRow(
        cluster_id="4L6g3nShT-eMCtK--X86sw",
        expected_id="4L6g3nShT-eMCtK--X86sw",
        condition=UpstreamCondition.CONNECTED,
        since_at_ms=NOW_MS - 3_600_000,
        error="",
        bootstrap_servers=("kafka-1.example:9092", "kafka-2.example:9092"),
        controller_id=1,
        nodes=nodes or tuple(upstream_node(node_id) for node_id in (1, 2, 3)),
        latencies=(
            UpstreamLatency("FetchConsumer", 4_000, 480.0, 510.0, waits=True),
            UpstreamLatency("Metadata", 12, float("nan"), float("nan"), waits=False),
            UpstreamLatency("Produce", 9_000, 1.5, 6.25, waits=False),
        ),
        turn_ms=0.05,
        loopback=(LoopbackAdvertised("PLAINTEXT", "localhost", 0),),
    )
    return replace(row, **changes)


def unreachable_upstream() -> UpstreamRow:
    """A cluster of which nothing answers, and which was never found."""
    error = "kafka-1.example:9092: Connection refused"
    return replace(
        upstream(),
        cluster_id="",
        expected_id="",
        condition=UpstreamCondition.UNREACHABLE,
        error=error,
        controller_id=-1,
        nodes=(),
        latencies=(),
        turn_ms=None,
    )
