"""Write txn markers, API key 27. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Message, Struct, field


class WritableTxnMarkerTopic(Struct):
    name: str = field("string", 1, 2)
    partition_indexes: list[int] = field("int32", 1, 2, array=True)


class WritableTxnMarker(Struct):
    producer_id: int = field("int64", 1, 2)
    producer_epoch: int = field("int16", 1, 2)
    transaction_result: bool = field("bool", 1, 2)
    topics: list[WritableTxnMarkerTopic] = field(WritableTxnMarkerTopic, 1, 2, array=True)
    coordinator_epoch: int = field("int32", 1, 2)
    transaction_version: int = field("int8", 2, 2)


class WriteTxnMarkersRequest(Message, api_key=27, versions=(1, 2), flexible=1):
    markers: list[WritableTxnMarker] = field(WritableTxnMarker, 1, 2, array=True)


class WritableTxnMarkerPartitionResult(Struct):
    partition_index: int = field("int32", 1, 2)
    error_code: int = field("int16", 1, 2)


class WritableTxnMarkerTopicResult(Struct):
    name: str = field("string", 1, 2)
    partitions: list[WritableTxnMarkerPartitionResult] = field(
        WritableTxnMarkerPartitionResult, 1, 2, array=True
    )


class WritableTxnMarkerResult(Struct):
    producer_id: int = field("int64", 1, 2)
    topics: list[WritableTxnMarkerTopicResult] = field(WritableTxnMarkerTopicResult, 1, 2, array=True)


class WriteTxnMarkersResponse(Message, api_key=27, versions=(1, 2), flexible=1):
    markers: list[WritableTxnMarkerResult] = field(WritableTxnMarkerResult, 1, 2, array=True)
