"""The parts of a gateway that read its upstream cluster for people. Made by `server.gateway`."""

from collections.abc import Callable, Collection

from broker.common.clock import Clock
from broker.common.slice_runner import OneAtATime
from broker.config.table import BrokerConfig
from broker.controller.commands import ResourceType
from broker.controller.control import Committer, Control
from broker.gateway.contents.asking import Asking
from broker.gateway.contents.configs import read_configs
from broker.gateway.contents.groups import read_group, read_groups
from broker.gateway.contents.readings import UpstreamReadings
from broker.gateway.contents.records import UpstreamRecords
from broker.gateway.contents.topics import read_topics
from broker.gateway.contents.views import ClusterMetadata, ClusterTopics
from broker.gateway.upstream.client import UpstreamClient
from broker.views.readings import Part


class ClusterContents:
    """`nodes` returns the ids of the present nodes; `may_ask` is whether the cluster is the expected one."""

    def __init__(
        self,
        client: UpstreamClient,
        nodes: Callable[[], Collection[int]],
        may_ask: Callable[[], bool],
        control: Control,
        committer: Committer,
        config: BrokerConfig,
        clock: Clock,
    ) -> None:
        gateway = config.gateway
        self.asking = asking = Asking(
            client, nodes, may_ask, gateway.views_requests_per_second, config.upstream.request_timeout_ms
        )
        self.readings = UpstreamReadings(
            {
                Part.TOPICS: lambda _name, notes: read_topics(asking, notes),
                Part.TOPIC_CONFIGS: lambda name, _notes: read_configs(asking, ResourceType.TOPIC, name),
                Part.GROUPS: lambda _name, notes: read_groups(asking, notes),
                Part.GROUP: lambda name, notes: read_group(asking, notes, name),
                Part.NODE_CONFIGS: lambda name, _notes: read_configs(asking, ResourceType.BROKER, name),
            },
            gateway.views_max_age_ms,
            clock,
        )
        UpstreamRecords(asking, OneAtATime().run, clock.ms, clock.wall_ms).register(control)
        self.topics = ClusterTopics(lambda: control.image, self.readings)
        self.metadata = ClusterMetadata(control, committer, self.readings)
