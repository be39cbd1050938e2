"""A busy afternoon on a made-up broker: a few clients are too greedy, the others are not.

Drives a FakeBroker for the demo server, so that every page has something to show without a broker. Seeded:
two runs look alike.
"""

import json
import math
import random
from dataclasses import dataclass, field
from functools import partial

import trio
from msgspec.structs import replace

from broker.common.slices import run_through
from broker.controller.commands import Actor, ChangeOrigin, EntityPairs, Role
from broker.controller.rows.broker import AuditEntry, PhaseRow, QueueRow, TokenRow
from broker.controller.rows.connections import AddressUse, ConnectionLimitRow, ThrottledRow
from broker.controller.rows.quotas import ShadowUse
from broker.quotas.kinds import QuotaKind
from tests.webui.fake_broker_quotas import LIMITS, simulated_use
from tests.webui.fake_resolving import usage
from tests.webui.fakes import FakeBroker
from tests.webui.rows import change, connection, group, tasks, topic

HOUR_MS = 3_600_000
CLIENTS = (
    # client id, user, produced and fetched bytes/s
    ("orders-service", "shop", 2.4e6, 0.3e6),
    ("orders-service", "shop", 2.1e6, 0.3e6),
    ("clickstream-ingest", "web", 38e6, 0),
    ("clickstream-ingest", "web", 35e6, 0),
    ("reporting", "analytics", 0, 61e6),
    ("reporting", "analytics", 0, 44e6),
    ("nightly-export", "analytics", 0, 22e6),
    ("fraud-scoring", "risk", 0.9e6, 9e6),
    ("billing", "finance", 0.4e6, 1.2e6),
    ("telegraf", "ANONYMOUS", 0.15e6, 0),
    ("search-indexer", "search", 0, 12e6),
    ("<img src=x onerror=alert(1)>", "ANONYMOUS", 0.01e6, 0),
)
RULES: tuple[tuple[EntityPairs, dict[str, float], str, float], ...] = (
    ((("user", "analytics"),), {"consumer_byte_rate": 50e6, "request_percentage": 80.0}, "ops-anna", 26),
    ((("user", "web"), ("client-id", "clickstream-ingest")), {"producer_byte_rate": 40e6}, "ops-anna", 3),
    (
        (("user", "analytics"), ("client-id", "nightly-export")),
        {"consumer_byte_rate": 20 * 2**20},
        "ci-deploy",
        190,
    ),
    (
        (("client-id", "orders-service"),),
        {"producer_byte_rate": 10 * 2**20, "consumer_byte_rate": 10 * 2**20},
        "ops-ben",
        700,
    ),
    (
        (("user", "risk"), ("client-id", None)),
        {"producer_byte_rate": 2e6, "consumer_byte_rate": 20e6},
        "ops-ben",
        48,
    ),
    (
        (("user", "finance"),),
        {"producer_byte_rate": 5e6, "consumer_byte_rate": 25e6, "controller_mutation_rate": 5.0},
        "root",
        1500,
    ),
    ((("user", "ANONYMOUS"), ("client-id", None)), {"request_percentage": 200.0}, "root", 1500),
)
ROOT = Actor("root", Role.ADMIN, "127.0.0.1", ChangeOrigin.REST)
ANNA = Actor("ops-anna", Role.EDITOR, "10.0.0.5", ChangeOrigin.PAGE)
OTHER_CHANGES: tuple[tuple[float, Actor, str, str, str, str | None, str], ...] = (
    (
        1600,
        Actor("broker", Role.ADMIN, "", ChangeOrigin.BROKER),
        "cluster",
        "",
        "id",
        None,
        "Zm9vYmFyYmF6cXV4MTIzNA",
    ),
    (1510, replace(ROOT, origin=ChangeOrigin.WIRE), "topic", "orders", "partitions", None, "12"),
    (300, ANNA, "topic-config", "clicks", "retention.ms", "604800000", "86400000"),
    (52, ROOT, "admin-token", "ci-deploy", "token", None, "(secret)"),
    (20, ANNA, "broker-config", "", "num.io.threads", "8", "16"),
    (2, ANNA, "client-quota", '[["client-id", "orders-service"]]', "shadow", None, "true"),
)
TOPICS = (
    ("orders", 12, 4_112_000_000),
    ("clicks", 24, 58_300_000_000),
    ("payments", 6, 310_000_000),
    ("fraud-scores", 6, 92_000_000),
    ("audit-log", 1, 7_400_000),
)
THROTTLED_BY = {
    ("clickstream-ingest", "produce"): RULES[1][0],
    ("reporting", "fetch"): RULES[0][0],
    ("nightly-export", "fetch"): RULES[2][0],
}
SHADOWED = RULES[3][0]
APIS = (
    ("Produce", 410, 1.1, 0.0),
    ("Fetch", 350, 0.7, 180.0),
    ("Metadata", 22, 0.2, 0.0),
    ("OffsetCommit", 18, 1.4, 0.0),
)


@dataclass
class Simulation:
    broker: FakeBroker
    seed: int = 7
    elapsed_ms: int = 0
    times: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        broker = self.broker
        broker.topic_count = 14
        broker.task_rows = tasks()
        for entity, limits, by, hours_ago in RULES:
            broker.version += 1
            at_ms = broker.now_ms - int(hours_ago * HOUR_MS)
            broker.set(entity, dict(limits), by=by, at_ms=at_ms, shadow=entity == SHADOWED)
        broker.connection_rows = [
            connection(
                client_id,
                user,
                index,
                address=f"10.0.{index % 3}.{20 + index}",
                opened_at_ms=broker.now_ms - 1_700_000 * (index + 1),
                software_name=("apache-kafka-java", "librdkafka", "aiokafka")[index % 3],
                software_version=("4.1.1", "2.12.1", "0.12.0")[index % 3],
            )
            for index, (client_id, user, _, _) in enumerate(CLIENTS)
        ]
        day_ms = 24 * HOUR_MS
        for name, role, days in (
            ("ci-deploy", "editor", 5),
            ("contractor", "viewer", -3),
            ("grafana", "viewer", 80),
        ):
            expires_ms = broker.now_ms + days * day_ms
            broker.token_rows.append(TokenRow(name, role, expires_ms - 90 * day_ms, "root", 14, expires_ms))
        for address, limit, by in ((None, 20.0, "root"), ("10.0.1.24", 5.0, "ops-anna")):
            broker.version += 1
            broker.set((("ip", address),), {"connection_creation_rate": limit}, by=by)

        broker.configs |= {
            "listeners": "PLAINTEXT://127.0.0.1:9092",
            "max.connections": "5000",
            "max.connection.creation.rate": "200",
            "max.connections.per.ip": "200",
            "ip.throttle.mode": "kip",
            "num.network.threads": "1",
            "num.io.threads": "8",
            "queued.max.requests": "500",
            "queued.max.request.bytes": "268435456",
            "flush.messages": "9223372036854775807",
        }
        broker.topic_rows = [
            topic(name, partitions, size_bytes=size, records=size // 480) for name, partitions, size in TOPICS
        ]
        broker.topic_rows.append(topic("__consumer_offsets", 1, internal=True, size_bytes=81_000, configs=()))
        broker.group_rows = [
            group("search-indexer", "indexer-0", "indexer-1", lag=120, topic="orders"),
            group("reporting", "reporting", lag=480_212, topic="clicks"),
            group("nightly-export", lag=0, topic="clicks"),
        ]
        broker.trail = self._trail()

    def _trail(self) -> list[AuditEntry]:
        """As if each rule had been made at its hour, and a few other things changed since."""
        changes = [
            (hours, change(0, who, kind=kind, entity=entity, key=key, old=old, new=new))
            for hours, who, kind, entity, key, old, new in OTHER_CHANGES
        ]
        for entity, limits, by, hours in RULES:
            for key, value in limits.items():
                old = f"{value / 2:.0f}" if hours < 100 else None
                row = change(0, replace(ANNA, name=by), entity=json.dumps(entity), key=key)
                changes.append((hours, replace(row, old=old, new=f"{value:.0f}")))
        changes.sort(key=lambda each: -each[0])
        return [
            replace(row, seq=seq, batch=seq, time_ms=self.broker.now_ms - int(hours * HOUR_MS))
            for seq, (hours, row) in enumerate(changes, 1)
        ]

    async def run(self) -> None:
        while True:
            self.step(250)
            await trio.sleep(0.25)

    def step(self, ms: int) -> None:
        self.elapsed_ms += ms
        self._connect(ms)
        self.broker.configs = {**LIMITS, **self.broker.configs}
        self.broker.broker_use = simulated_use(self.elapsed_ms)
        broker, seconds = self.broker, ms / 1000
        broker.now_ms += ms
        wave = 1 + 0.25 * math.sin(self.elapsed_ms / 21_000) + self.random.uniform(-0.12, 0.12)
        rates = [(produced * wave, fetched * wave) for _, _, produced, fetched in CLIENTS]
        self._hold(ms)
        self._use(rates)
        self._move(rates, seconds)
        now = broker.now
        produced, fetched = sum(one for one, _ in rates), sum(other for _, other in rates)
        idle = 0.72 - 0.18 * wave + self.random.uniform(-0.02, 0.02)
        broker.now = replace(
            now,
            uptime_ms=now.uptime_ms + ms,
            bytes_in_total=now.bytes_in_total + int(produced * seconds),
            bytes_out_total=now.bytes_out_total + int(fetched * seconds),
            requests_total=now.requests_total + int(3_900 * wave * seconds),
            groups=6,
            thread_idle=idle - 0.14,
            processor_idle=idle,
            handler_idle=idle - 0.11,
            acceptor_blocked=0.012,
            memory_pool_used=int(18e6 * wave),
            memory_pool_size=256 * 2**20,
            queues=(
                QueueRow("requests", int(9 * wave), 500, 212),
                QueueRow("responses of processor 0", int(3 * wave), 0, 61),
                QueueRow("responses of processor 1", 0, 0, 14),
            ),
            phases=tuple(self._phases(wave)),
        )

    def _connect(self, ms: int) -> None:
        """One address connects in a storm, the others now and then."""
        stormy = "10.0.1.24"
        uses = []
        for index, row in enumerate(self.broker.connection_rows):
            rate = 5.0 if row.address == stormy else 0.1 * (1 + index % 3)
            accepted = int(rate * self.elapsed_ms / 1000)
            throttled = int(31 * self.elapsed_ms / 1000) if row.address == stormy else 0
            uses.append(
                AddressUse(
                    row.address, rate, 1 + index % 2, 200, accepted, throttled, throttled - min(throttled, 9)
                )
            )
        self.broker.address_uses = uses
        self.broker.limit_rows = [
            ConnectionLimitRow(name, len(uses), most, 7.4, fastest, (("connection_creation_rate", 912),))
            for name, most, fastest in (("", 5_000, 200), ("PLAINTEXT", 4_000, None), ("SASL_SSL", None, 50))
        ]

    def _phases(self, wave: float) -> list[PhaseRow]:
        rows = []
        for api, per_second, local, remote in APIS:
            count = int(per_second * self.elapsed_ms / 1000)
            figures = {
                "RequestQueueTimeMs": 0.4 * wave,
                "LocalTimeMs": local * wave,
                "RemoteTimeMs": remote * wave,
                "ThrottleTimeMs": 1_980.0 if api in ("Produce", "Fetch") else 0.0,
                "ResponseQueueTimeMs": 0.1,
                "ResponseSendTimeMs": 0.3 * wave,
            }
            figures["TotalTimeMs"] = sum(figures.values()) - figures["ThrottleTimeMs"]
            rows += [PhaseRow(api, phase, count, p99 / 3, p99) for phase, p99 in figures.items()]
        return rows

    def _move(self, rates: list[tuple[float, float]], seconds: float) -> None:
        throttled = {row.connection_id for row in self.broker.throttled_rows}
        self.broker.connection_rows = [
            replace(
                row,
                bytes_in=row.bytes_in + int(produced * seconds),
                bytes_out=row.bytes_out + int(fetched * seconds),
                requests=row.requests + int((produced + fetched) * seconds / 64_000) + 1,
                mute_state="muted_and_throttled" if row.connection_id in throttled else "not_muted",
            )
            for row, (produced, fetched) in zip(self.broker.connection_rows, rates, strict=False)
        ]

    def _use(self, rates: list[tuple[float, float]]) -> None:
        use: dict[EntityPairs, dict[str, float]] = {}
        for (client_id, user, _, _), (produced, fetched) in zip(CLIENTS, rates, strict=True):
            for limit, _ in run_through(self.broker.resolve(user, client_id)):
                if limit.matched is None:
                    continue
                figure = {
                    "producer_byte_rate": produced,
                    "consumer_byte_rate": fetched,
                    "request_percentage": 3.0 + fetched / 4e6,
                    "controller_mutation_rate": 0.0,
                }[limit.key]
                entity = use.setdefault(limit.matched, {})
                entity[limit.key] = entity.get(limit.key, 0.0) + figure
        self.broker.observed = use
        self._count_all(rates)

    def _count_all(self, rates: list[tuple[float, float]]) -> None:
        """Accounts of all clients; and what the rule in shadow would have done."""
        broker = self.broker
        sums: dict[tuple[str, str], list[float]] = {}
        for (client_id, user, _, _), (produced, fetched) in zip(CLIENTS, rates, strict=True):
            figures = sums.setdefault((user, client_id), [0.0, 0.0, 0])
            figures[0] += produced
            figures[1] += fetched
            figures[2] += 1
        broker.usage_rows = [
            usage(
                user,
                client_id,
                produced,
                fetched,
                connections=int(connections),
                limited_by=tuple(
                    limit.key
                    for limit, _ in run_through(broker.resolve(user, client_id))
                    if limit.matched is not None
                ),
                history=partial(self._history, produced, fetched),
            )
            for (user, client_id), (produced, fetched, connections) in sums.items()
        ]
        times = self.elapsed_ms // 9_000
        last = self.broker.now_ms - self.elapsed_ms % 9_000
        broker.shadow_use = {
            (SHADOWED, key): ShadowUse(SHADOWED, key, times, times * 335, last if times else None)
            for key in ("producer_byte_rate", "consumer_byte_rate")
        }

    def _history(self, produced: float, fetched: float) -> list[tuple[int, int, int]]:
        ripples = [self._ripple(step) for step in range(60)]
        return [(int(produced * 5 * each), int(fetched * 5 * each), 50) for each in ripples]

    def _ripple(self, step: int) -> float:
        return 1 + 0.4 * math.sin((self.elapsed_ms / 5_000 + step) / 6)

    def _hold(self, ms: int) -> None:
        rows = [
            replace(row, remaining_ms=row.remaining_ms - ms, since_ms=row.since_ms + ms)
            for row in self.broker.throttled_rows
            if row.remaining_ms > ms
        ]
        throttled = {row.connection_id for row in rows}
        for row, (client_id, user, produced, fetched) in zip(
            self.broker.connection_rows, CLIENTS, strict=False
        ):
            kind = "produce" if produced > fetched else "fetch"
            rule = THROTTLED_BY.get((client_id, kind))
            limits = self.broker.rows.get(rule) if rule else None
            if (
                rule is None
                or limits is None
                or row.connection_id in throttled
                or self.random.random() > 0.16
            ):
                continue
            key = "producer_byte_rate" if kind == "produce" else "consumer_byte_rate"
            bound = limits.value(key)
            if bound is None:
                continue
            observed = bound * self.random.uniform(1.05, 3.4)
            rows.append(
                self._throttle(row.connection_id, row.address, client_id, user, kind, rule, observed, bound)
            )
        self.broker.throttled_rows = rows

    def _throttle(
        self,
        connection_id: str,
        address: str,
        client_id: str,
        user: str,
        kind: str,
        rule: EntityPairs,
        observed: float,
        bound: float,
    ) -> ThrottledRow:
        delay = int((observed - bound) / bound * 10_500 / 4)
        times = self.times[connection_id] = self.times.get(connection_id, 0) + 1
        obeys = None if times < 2 else client_id != "clickstream-ingest"
        return ThrottledRow(
            connection_id,
            client_id,
            user,
            address,
            QuotaKind(kind),
            rule,
            observed,
            bound,
            delay,
            delay,
            0,
            times,
            obeys,
        )
