"""The parts of a gateway that read and change its upstream cluster for people. Made by `server.gateway`."""

from collections.abc import Callable, Collection

from broker.common.clock import Clock
from broker.common.slice_runner import OneAtATime
from broker.config.table import BrokerConfig
from broker.controller.commands import ResourceType
from broker.controller.control import Committer, Control
from broker.gateway.contents.access import read_acls, read_authorizer, read_scram_users
from broker.gateway.contents.access_changes import AccessChanges
from broker.gateway.contents.asking import Asking
from broker.gateway.contents.configs import read_configs
from broker.gateway.contents.group_changes import GroupChanges
from broker.gateway.contents.groups import read_group, read_groups
from broker.gateway.contents.readings import Read, UpstreamReadings
from broker.gateway.contents.records import UpstreamRecords
from broker.gateway.contents.topic_changes import TopicChanges
from broker.gateway.contents.topics import read_topics
from broker.gateway.contents.transactions import read_transaction, read_transactions
from broker.gateway.contents.views import ClusterAcls, ClusterMetadata, ClusterTopics
from broker.gateway.upstream.client import UpstreamClient
from broker.views.readings import Part


class ClusterContents:
    """A `broker.views.upstream_views.ContentViews`. The SCRAM users are the cluster's unless the gateway logs
    clients in itself, with users of its own.
    """

    def __init__(
        self,
        client: UpstreamClient,
        nodes: Callable[[], Collection[int]],
        controller: Callable[[], int | None],
        may_ask: Callable[[], bool],
        control: Control,
        committer: Committer,
        config: BrokerConfig,
        clock: Clock,
        *,
        logs_in: bool,
    ) -> None:
        """`nodes`, `controller` and `may_ask` as in `Asking`; `logs_in`: the gateway logs clients in."""
        gateway = config.gateway
        asking = Asking(
            client,
            nodes,
            controller,
            may_ask,
            gateway.views_requests_per_second,
            config.upstream.request_timeout_ms,
        )
        readers: dict[Part, Read] = {
            Part.TOPICS: lambda _name, notes: read_topics(asking, notes),
            Part.TOPIC_CONFIGS: lambda name, _notes: read_configs(asking, ResourceType.TOPIC, name),
            Part.GROUPS: lambda _name, notes: read_groups(asking, notes),
            Part.GROUP: lambda name, notes: read_group(asking, notes, name),
            Part.TRANSACTIONS: lambda _name, notes: read_transactions(asking, notes),
            Part.TRANSACTION: lambda name, notes: read_transaction(asking, notes, name),
            Part.ACLS: lambda _name, notes: read_acls(asking, notes),
            Part.AUTHORIZER: lambda _name, notes: read_authorizer(asking, notes, nodes()),
            Part.NODE_CONFIGS: lambda name, _notes: read_configs(asking, ResourceType.BROKER, name),
        }
        if not logs_in:
            readers[Part.SCRAM_USERS] = lambda _name, notes: read_scram_users(asking, notes)
        self.readings = readings = UpstreamReadings(readers, gateway.views_max_age_ms, clock)
        self.topics = ClusterTopics(lambda: control.image, readings)
        self.acls = ClusterAcls(lambda: control.image, readings)
        self.metadata = ClusterMetadata(control, committer, readings, has_users=logs_in)
        UpstreamRecords(asking, OneAtATime().run, clock.ms, clock.wall_ms).register(control)
        TopicChanges(asking, readings).register(control)
        GroupChanges(asking, readings).register(control)
        AccessChanges(asking, readings, scram=not logs_in).register(control)
