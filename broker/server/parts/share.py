"""Share groups of one broker: their records in flight, their sessions, and the state topic."""

from collections.abc import Callable

from broker.api.requests.automatic_topics import automatic_topic
from broker.api.requests.delayed_operations import DelayedFetches
from broker.api.requests.services import HandlerServices, ShareServices, ShareStateServices
from broker.api.security.client_security import ClientSecurity
from broker.common.clock import Clock
from broker.config.table import BrokerConfig
from broker.controller.commands import BROKER_ITSELF, CreateTopics
from broker.controller.control import Control
from broker.coordinator.share.persister import SHARE_STATE_TOPIC, ShareStatePersister
from broker.coordinator.share.sessions import ShareSessions
from broker.coordinator.share.share_partitions import SharePartitions, ShareSettings, share_settings
from broker.network.failures import FailedStep, Failures
from broker.network.reaper import Reaper
from broker.partitions.partitions import Partitions
from broker.quotas.client_quotas import ClientQuotas


class ShareGroups:
    """The parts, and the services of the handlers. `config` is the configuration at the start."""

    def __init__(
        self,
        config: BrokerConfig,
        control: Control,
        partitions: Partitions,
        fetches: DelayedFetches,
        quotas: ClientQuotas,
        security: ClientSecurity,
        clock: Clock,
    ) -> None:
        self._control = control
        self.persister = ShareStatePersister(config.share_coordinator, partitions, clock, self._create_topic)
        self.sessions = ShareSessions(config.share_partitions.max_sessions)
        self.share = SharePartitions(
            config.share_partitions,
            partitions,
            self.persister,
            self._settings_of,
            clock,
            fetches.share.complete,
        )
        self.services: HandlerServices = {
            ShareServices: ShareServices(
                clock,
                config.fetch.max_bytes,
                partitions,
                fetches.share,
                self.sessions,
                self.share,
                quotas,
                security,
            ),
            ShareStateServices: ShareStateServices(partitions, self.persister, security),
        }

    def disconnected(self, connection_id: str) -> None:
        """End the sessions of a closed connection; the lock timer releases what their members hold."""
        for session in self.sessions.disconnected(connection_id):
            self.share.release_soon(session.key.member_id, session.partitions)

    async def _create_topic(self) -> None:
        topic = automatic_topic(SHARE_STATE_TOPIC, self._control.config)
        await self._control.apply(CreateTopics((topic,)), BROKER_ITSELF)

    def _settings_of(self, group_id: str) -> ShareSettings:
        own = self._control.image.group_configs.get(group_id, {})
        return share_settings(own, self._control.config.share_partitions)


def share_reapers(
    groups: ShareGroups,
    fetches: DelayedFetches,
    node_id: int,
    failures: Failures,
    clock: Clock,
    deliver: Callable[[], None],
) -> tuple[Reaper, ...]:
    """Return the timers of the waiting fetches, of the locks and of the state topic."""

    def expire_fetches(now_ms: int) -> None:
        fetches.share.complete_expired(now_ms)
        deliver()

    def expire_locks(now_ms: int) -> None:
        try:
            groups.share.expire(now_ms)
        except Exception as error:  # noqa: BLE001 - reported; other requests go on
            failures.report(FailedStep.SHARE_TIMER, error)
        deliver()

    def prune(now_ms: int) -> None:
        try:
            groups.persister.prune(now_ms)
        except Exception as error:  # noqa: BLE001 - reported; other requests go on
            failures.report(FailedStep.SHARE_TIMER, error)
        deliver()

    name = f"ExpirationReaper-{node_id}-ShareFetch"
    locks = Reaper("share-lock-timer", groups.share.next_deadline, expire_locks, clock)
    groups.share.on_deadline = locks.wake_by
    waiting = Reaper(name, fetches.share.next_deadline, expire_fetches, clock)
    fetches.share.on_deadline = waiting.wake_by
    states = Reaper("share-state-timer", groups.persister.next_deadline, prune, clock)
    groups.persister.on_deadline = states.wake_by
    return waiting, locks, states
