"""The metadata and its control, the quotas of clients, their telemetry, and the expiry of tokens; none of it
needs a log.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final

import trio

from broker.api.requests.callbacks import Callbacks
from broker.api.requests.retry_storm import RETRY_STORM, RetryStormGate
from broker.common.clock import Clock
from broker.common.errors import ApiError
from broker.common.slices import Steps
from broker.config.listeners import Server
from broker.config.load import Configuration
from broker.config.sections import TelemetryConfig
from broker.config.table import BrokerConfig
from broker.controller.control import Committer, Control
from broker.controller.delegation_tokens import RemoveExpiredDelegationTokens
from broker.controller.dynamic_config import explaining_dynamic_settings, warn_of_inert_settings
from broker.metadata.actor import BROKER_ITSELF
from broker.metadata.store import MetadataStore
from broker.metrics.rate import Window
from broker.monitoring.otlp.export import TASK as OTLP
from broker.monitoring.otlp.export import OtlpExporter, http_sender
from broker.monitoring.otlp.pushes import TASK as PUSHES
from broker.monitoring.otlp.pushes import PushReader, RecordBuffer
from broker.network.clock import TrioClock
from broker.network.metadata_writer import MetadataWriter
from broker.network.reaper import Reaper
from broker.network.supervisor import TaskStarter
from broker.partitions.event_log import EventOrigin
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.connections import ConnectionQuotas
from broker.quotas.guarded_callback import GuardedCallback, load_callback
from broker.quotas.saved_usage import UsageOfClients
from broker.server.disk.stores import open_metadata
from broker.server.parts.quota_usage import QuotaUsageFile
from broker.telemetry.receiver import load_receivers
from broker.telemetry.state import Telemetry

logger = logging.getLogger(__name__)

EXPIRY_TASK: Final = "delegation-token-expiry"
"""The name of the task that removes expired delegation tokens."""


@contextmanager
def closing_on_failure(close: Callable[[], object]) -> Iterator[None]:
    """Close what is open if the server cannot be built, such as for a port that is in use."""
    try:
        yield
    except BaseException:
        close()
        raise


class ServerMetadata:
    """`config` is the configuration at the start, with the dynamic settings; `control.config` is the current
    one.
    """

    def __init__(
        self,
        configuration: Configuration,
        clock: TrioClock,
        committer: Callable[[MetadataStore, MetadataWriter], Committer] = lambda _store, writer: writer,
    ) -> None:
        """Open the metadata in the first of `log.dirs`. `committer` returns what commits changes, which by
        default is the writer of this store. Raises ConfigError, MetadataUnusable or OSError.
        """
        self.node_id = configuration.config.broker.node_id
        self.store = open_metadata(configuration, clock.wall_ms())
        self.writer = MetadataWriter(self.store, clock)
        with closing_on_failure(self.close), self.explaining_dynamic_settings():
            self.control = Control(
                self.store.image, configuration, committer(self.store, self.writer), clock.wall_ms
            )
        warn_of_inert_settings(self.store.image)
        self.config = self.control.config

    def explaining_dynamic_settings(self) -> AbstractContextManager[None]:
        """Add to any ConfigError raised in the block that the setting is dynamic, and how to delete it."""
        return explaining_dynamic_settings(self.store.image, self.node_id)

    def close(self) -> None:
        self.store.close()


class ServerQuotas:
    """`clients` limits requests and bytes. `connections` has the quotas of the broker's socket server and, if
    it has listeners, the controller's. With `shared`, other gateways have parts of each client's limit.
    """

    def __init__(
        self, config: BrokerConfig, callback: GuardedCallback | None, clock: Clock, *, shared: bool = False
    ) -> None:
        settings = config.quotas
        window = Window(config.quotas.window_num, config.quotas.window_size_seconds * 1000)
        mutation_window = Window(
            settings.controller_window_num, settings.controller_window_size_seconds * 1000
        )
        self.clients = ClientQuotas(
            window,
            mutation_window,
            longest_throttle_ms=settings.longest_throttle_ms,
            paced=settings.bandwidth_algorithm == "paced",
            burst_ms=settings.burst_ms,
            shared=shared,
            callback=callback,
        )
        self.clients.configure_broker(config.broker_quotas, clock.ms())
        self.connections = {
            server: ConnectionQuotas(
                window,
                protected=config.network.inter_broker_listener if server is Server.BROKER else None,
                paced=settings.bandwidth_algorithm != "rate",
                broker_wide_ip=config.automq.server_mode == "automq",
                ipv6_prefix=config.connections.ipv6_prefix_length,
                shared=shared and server is Server.BROKER,
            )
            for server in config.network.servers
        }
        connections = {server.value: quotas for server, quotas in self.connections.items()}
        self.usage = QuotaUsageFile(
            config.log.dirs[0] if settings.usage_persistence else None,
            UsageOfClients(self.clients, connections, window, mutation_window),
            clock,
        )

    def expire(self, now_ms: int) -> Steps[None]:
        """Forget the sensors of clients and addresses that are idle."""
        yield from self.clients.expire(now_ms)
        for connections in self.connections.values():
            yield from connections.expire(now_ms)

    def close(self) -> None:
        self.usage.close()
        if self.clients.callback is not None:
            self.clients.callback.close()


def quota_callback(configuration: Configuration, clock: Clock) -> GuardedCallback | None:
    """Build the callback of `client.quota.callback.class`, if set. Raises ConfigError."""
    name = configuration.config.quotas.callback_class
    if not name:
        return None
    return GuardedCallback(load_callback(name, configuration.originals()), name, clock.ms)


class ServerTelemetry:
    """Pushes are written to `records`, and their responses posted to
    `callbacks`; `deliver` makes the handlers take these.
    """

    def __init__(
        self,
        configuration: Configuration,
        config: TelemetryConfig,
        records: RecordBuffer,
        callbacks: Callbacks,
        deliver: Callable[[], None],
        clock: TrioClock,
        origin: EventOrigin,
    ) -> None:
        """Raises ConfigError if a receiver cannot be loaded."""
        self.state = Telemetry(config)
        manager = self.state.manager
        self._reaper = Reaper("client-metrics-reaper", manager.next_deadline, manager.expire, clock)
        manager.on_deadline = self._reaper.wake_by
        self._push_reader = PushReader(
            origin,
            self.state,
            callbacks,
            deliver,
            records,
            load_receivers(config.receivers, configuration.originals()),
            clock,
        )
        self._exporter: OtlpExporter | None = None
        if config.otlp_endpoint:
            self._exporter = OtlpExporter(self.state.export_queue, http_sender(config))

    def start(self, nursery: TaskStarter) -> None:
        """Start the tasks that expire instances, read pushes, and send them to a collector."""
        nursery.start_soon(self._reaper.run, name=self._reaper.name)
        nursery.start_soon(self._push_reader.run, name=PUSHES)
        if self._exporter is not None:
            nursery.start_soon(self._exporter.run, name=OTLP)


def retry_storm_reaper(gate: RetryStormGate, clock: TrioClock, deliver: Callable[[], None]) -> Reaper:
    """Return the reaper of the error responses that `gate` delays."""

    def expire(now_ms: int) -> None:
        gate.delayed.complete_expired(now_ms)
        deliver()

    reaper = Reaper(RETRY_STORM, gate.delayed.next_deadline, expire, clock)
    gate.delayed.on_deadline = reaper.wake_by
    return reaper


async def remove_expired_tokens(control: Control, interval_ms: int, clock: Clock) -> None:
    """Remove expired delegation tokens every `interval_ms`, until cancelled: those that remain are of no use,
    and the next start removes them. (Kafka: QuorumController, sweepExpiredDelegationTokens)
    """
    while True:
        await trio.sleep(interval_ms / 1_000)
        try:
            removed = await control.apply(RemoveExpiredDelegationTokens(clock.wall_ms()), BROKER_ITSELF)
        except ApiError as error:
            logger.error("cannot remove expired delegation tokens", extra={"reason": error.message})
            continue
        failed = [each for each in removed if not each.ok]
        if failed:
            logger.error("cannot remove expired delegation tokens", extra={"reason": failed[0].message})
        elif removed:
            logger.info("removed expired delegation tokens", extra={"tokens": len(removed)})
