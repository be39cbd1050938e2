"""Streams group topology description update, API key 93. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Message, Struct, field


class TopologyDescriptionNode(Struct):
    name: str = field("string", 0, 0)
    node_type: int = field("int8", 0, 0)
    source_topics: list[str] = field("string", 0, 0, array=True)
    sink_topic: str | None = field("string", 0, 0, nullable=0)
    stores: list[str] = field("string", 0, 0, array=True)
    successors: list[str] = field("string", 0, 0, array=True)


class TopologyDescriptionSubtopology(Struct):
    subtopology_id: str = field("string", 0, 0)
    nodes: list[TopologyDescriptionNode] = field(TopologyDescriptionNode, 0, 0, array=True)


class TopologyDescriptionGlobalStore(Struct):
    source: TopologyDescriptionNode = field(TopologyDescriptionNode, 0, 0)
    processor: TopologyDescriptionNode = field(TopologyDescriptionNode, 0, 0)


class TopologyDescription(Struct):
    subtopologies: list[TopologyDescriptionSubtopology] = field(
        TopologyDescriptionSubtopology, 0, 0, array=True
    )
    global_stores: list[TopologyDescriptionGlobalStore] = field(
        TopologyDescriptionGlobalStore, 0, 0, array=True
    )


class StreamsGroupTopologyDescriptionUpdateRequest(Message, api_key=93, versions=(0, 0), flexible=0):
    group_id: str = field("string", 0, 0)
    member_id: str = field("string", 0, 0)
    topology_epoch: int = field("int32", 0, 0)
    topology_description: TopologyDescription = field(TopologyDescription, 0, 0)


class StreamsGroupTopologyDescriptionUpdateResponse(Message, api_key=93, versions=(0, 0), flexible=0):
    throttle_time_ms: int = field("int32", 0, 0)
    error_code: int = field("int16", 0, 0)
    error_message: str | None = field("string", 0, 0, nullable=0)
