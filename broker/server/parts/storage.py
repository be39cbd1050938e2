"""The logs of partitions, the requests that wait for them, and groups."""

import logging
from collections.abc import Callable

from broker.api.requests.callbacks import Callbacks
from broker.api.requests.change_limits import ControllerMutations
from broker.api.requests.delayed_operations import AppendLinger, DelayedFetches, DelayedProduce
from broker.api.requests.group_replies import expire_groups, release_groups
from broker.api.requests.retry_storm import RetryStormGate
from broker.api.requests.services import GroupServices
from broker.api.security.client_security import ClientSecurity
from broker.config.sections.groups import group_times
from broker.config.sections.share_groups import share_group_times
from broker.config.sections.streams_groups import streams_group_settings
from broker.config.table import BrokerConfig
from broker.controller.control import Control
from broker.coordinator.group.consumer.assignment import ClusterTopics
from broker.coordinator.group.messages import Now
from broker.coordinator.group_service import GroupService
from broker.coordinator.transaction_service import TransactionService
from broker.log.cleaner.manager import CleanerManager
from broker.network.clock import TrioClock
from broker.network.failures import FailedStep, Failures
from broker.network.handling.handler_pool import HandlerPool
from broker.network.reaper import Reaper
from broker.network.supervisor import TaskStarter
from broker.partitions.partitions import Partitions
from broker.purgatory.purgatory import Purgatory
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.replication import ReplicationQuotas
from broker.server.disk.log_cleaner import LOG_CLEANER, LogCleaner
from broker.server.disk.log_mover import LOG_MOVER, LogMover
from broker.server.disk.stores import open_logs
from broker.server.disk.tasks import BackgroundThreads, start_storage
from broker.server.parts.control import retry_storm_reaper
from broker.server.parts.share_groups import ShareGroups, ShareGroupStateService, share_reapers
from broker.server.parts.streams_topics import StreamsTopicCreation

logger = logging.getLogger(__name__)


class ServerStorage:
    """`config` is the configuration at the start."""

    def __init__(self, config: BrokerConfig, control: Control, clock: TrioClock) -> None:
        """Open and recover the logs. Raises ConfigError or OSError."""
        self._config = config.log
        self._compacts = config.cleaner.enabled
        self._clock = clock
        self.log = open_logs(config.log, config.topic_settings)
        self.partitions = Partitions(self.log, lambda: control.config.topic_settings)
        self.replication = ReplicationQuotas(
            config.replication, config.broker.node_id, paced=config.quotas.bandwidth_algorithm != "rate"
        )
        self.background = BackgroundThreads(config.log.background_threads)
        self.mover = LogMover(self.log, self.replication.alter_log_dirs, self.background, clock)
        self.cleaner = LogCleaner(CleanerManager(self.log), config.cleaner, clock)

    def start(self, nursery: TaskStarter, handlers: HandlerPool) -> None:
        """Start the tasks of the logs. `handlers` answer the requests that waited for a flush."""
        start_storage(nursery, self.log, self._config, handlers, self.background, self._clock)
        nursery.start_soon(self.mover.run, name=LOG_MOVER)
        if self._compacts:
            nursery.start_soon(self.cleaner.run, name=LOG_CLEANER)

    def close(self) -> None:
        """Flush appended records and close the logs."""
        for error in self.log.close():
            logger.error("a log was not closed cleanly", extra={"reason": str(error)})


class DelayedRequests:
    """Completed requests are posted to `callbacks`; `deliver` makes the handlers take them."""

    def __init__(
        self,
        config: BrokerConfig,
        control: Control,
        partitions: Partitions,
        security: ClientSecurity,
        callbacks: Callbacks,
        failures: Failures,
        clock: TrioClock,
        deliver: Callable[[], None],
        quotas: ClientQuotas,
        mutations: ControllerMutations,
    ) -> None:
        self._failures = failures
        self._clock = clock
        self._deliver = deliver
        self.fetches = DelayedFetches(
            callbacks, config.fetch.fetch_purge_interval, config.fetch.share_fetch_purge_interval
        )
        self.produces: Purgatory[DelayedProduce] = Purgatory("Produce", config.fetch.produce_purge_interval)
        self.purgatories = (self.fetches, self.fetches.share, self.produces)
        self.retry_storm = RetryStormGate(callbacks, clock)
        groups = GroupService(
            config.groups,
            config.consumer_groups,
            config.share_groups,
            partitions,
            lambda: ClusterTopics(control.image.topics, control.image.version),
            lambda group_id: group_times(
                control.image.group_configs.get(group_id, {}), control.config.consumer_groups
            ),
            lambda group_id: share_group_times(
                control.image.group_configs.get(group_id, {}), control.config.share_groups
            ),
            lambda group_id: streams_group_settings(
                control.image.group_configs.get(group_id, {}), control.config.streams_groups
            ),
        )
        self.transactions = TransactionService(config.transactions, partitions, groups)
        self.share = ShareGroups(
            config, control, partitions, self.fetches, quotas, security, clock, deliver, self._report_share
        )
        groups.share_summary = self.share.persister.summary
        groups.coordinator.groups.on_removed = self.share.dead_letters.writer.forget
        self.share_states = ShareGroupStateService(
            groups,
            self.share.persister,
            lambda: control.image.topics_by_id,
            clock,
            self._report_timer,
        )
        self.linger = AppendLinger(config.groups.append_linger_ms, callbacks, clock)
        self.streams_topics = StreamsTopicCreation(control, failures, clock)
        self.groups = GroupServices(
            control,
            groups,
            callbacks,
            security,
            self.transactions,
            self.share_states,
            self.linger,
            mutations,
            self.streams_topics.topics,
        )
        fetch_reaper = f"ExpirationReaper-{config.broker.node_id}-Fetch"
        fetch_timer = Reaper(fetch_reaper, self.fetches.next_deadline, self._expire_fetches, clock)
        self.fetches.on_deadline = fetch_timer.wake_by
        group_timer = Reaper("group-coordinator-timer", self._group_deadline, self._expire_members, clock)
        groups.coordinator.groups.timers.on_deadline = group_timer.wake_by
        self.linger.responses.on_deadline = group_timer.wake_by
        states = self.share_states
        states_timer = Reaper("share-group-states-timer", states.next_deadline, states.begin, clock)
        groups.coordinator.groups.on_pending_states = states_timer.wake_by
        transactions = self.transactions
        transaction_timer = Reaper(
            "transaction-timer", transactions.next_deadline, self._run_transactions, clock
        )
        transactions.on_deadline = transaction_timer.wake_by
        self.reapers = (
            fetch_timer,
            retry_storm_reaper(self.retry_storm, clock, deliver),
            group_timer,
            states_timer,
            transaction_timer,
            *share_reapers(self.share, self.fetches, config.broker.node_id, failures, clock, deliver),
        )

    def release_waiting(self) -> None:
        """Complete fetches as if they had timed out, and JoinGroup and SyncGroup with NOT_COORDINATOR."""
        self.fetches.complete_all(self._clock.ms())
        self.fetches.share.complete_all(self._clock.ms())
        release_groups(self.groups)
        self.linger.responses.complete_all(self._clock.ms())

    def _expire_fetches(self, now_ms: int) -> None:
        self.fetches.complete_expired(now_ms)
        self._deliver()

    def _group_deadline(self) -> int | None:
        deadlines = self.groups.groups.next_deadline(), self.linger.responses.next_deadline()
        return min((each for each in deadlines if each is not None), default=None)

    def _expire_members(self, now_ms: int) -> None:
        self.linger.responses.complete_expired(now_ms)
        expire_groups(self.groups, now_ms, self._clock.wall_ms(), self._report_timer)
        self._deliver()

    def _run_transactions(self, now_ms: int) -> None:
        try:
            grown = self.transactions.run(Now(now_ms, self._clock.wall_ms()))
        except Exception as error:  # noqa: BLE001 - reported; other requests go on
            self._failures.report(FailedStep.TRANSACTION_TIMER, error)
            self.transactions.pause(now_ms)
            return
        for log in grown:
            self.fetches.complete(log)
        self._deliver()

    def _report_share(self, group: str, error: Exception) -> None:
        self._failures.report(FailedStep.SHARE_TIMER, error, group=group)

    def _report_timer(self, group: str, error: Exception) -> None:
        self._failures.report(FailedStep.GROUP_TIMER, error, group=group)
