"""Produce: appends record batches to partitions.

Versions 3-13; the advertised minimum is 0 so that old librdkafka accepts the range (KAFKA-18659). Version 13
names topics by id. acks=1 and acks=all are equal because each partition has one replica: the broker responds
after the append reaches the page cache or, where flush.messages requires it, the disk. It waits for the disk
for at most `timeout_ms`, then responds REQUEST_TIMED_OUT; the records stay, as in Kafka. acks=0 has no
response; an error closes the connection. zstd is allowed from version 7. `record.validation` selects the
batches whose records are inspected before the append. An invalid batch fails its own partition only; from
version 8, `record_errors` names up to 1,000 of its refused records (KIP-467). Only the code comes back for an
uncompressed batch of more than 256 records whose header has a time too far ahead. Where compression.type asks
for another codec, the batch is compressed anew in a thread. A batch of a transaction needs its partition in
the producer's transaction; version 12 adds it (KIP-890), and before version 11 the error is
INVALID_TXN_STATE.
"""

from collections.abc import Awaitable
from functools import partial

from broker.api.produce.fast_path import ProduceFastPath
from broker.api.produce.pending import PendingProduce
from broker.api.produce.rules import ZSTD_SINCE, hosted_topic, refusal_of, topic_refusal
from broker.api.produce.transactions import TransactionalWrite, added_partitions
from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.group_replies import now_of
from broker.api.requests.outcome import Outcome, Sliced, StagedAppends, in_slices
from broker.api.requests.services import ProduceServices
from broker.api.requests.topics_used import note_written
from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import Slices
from broker.coordinator.transaction_service import WrittenChange
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.produce import ProduceRequest
from broker.records.compression import Codec
from broker.records.header import codec_of
from broker.security.acl.acl import Operation


@api(ApiKey.PRODUCE, versions=(3, 13), services=ProduceServices, advertised_min=0, fast_path=ProduceFastPath)
def handle(
    message: ProduceRequest, context: RequestContext, services: ProduceServices
) -> Outcome | Awaitable[Outcome]:
    return in_slices(_append_all(message, context, services))


def _append_all(
    message: ProduceRequest, context: RequestContext, services: ProduceServices
) -> Slices[Outcome]:
    """Stage the first piece, after inspecting the batches that need it.

    `PendingProduce` stages each further piece of a large request after the previous piece is committed.
    """
    refusal = refusal_of(message)
    transactional_id = message.transactional_id
    if transactional_id is not None and not services.security.allows_transactional_id(
        context, Operation.WRITE, transactional_id
    ):
        refusal = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    faults = {} if refusal else (yield from _inspect(message, context, services))
    pending = PendingProduce(message, context, services, refusal, faults)
    if transactional_id is not None and not refusal:
        write = TransactionalWrite(transactional_id, context, services.transactions)
        pending.transaction = write
        try:
            added = yield from added_partitions(message, context, services, write)
        except ApiError as error:
            pending.refuse(error.code)
            added = None
        if added is not None:
            return StagedAppends([added.log.log], partial(_stage_added, added, write, pending))
    pending.stage()
    return pending


def _stage_added(added: WrittenChange, write: TransactionalWrite, pending: PendingProduce) -> Outcome:
    """Stage the batches after the commit of the change that adds their partitions to the transaction."""
    write.error = pending.services.transactions.settle(added, now_of(pending.context))
    return Sliced(pending.stage_next(), None)


def _inspect(
    message: ProduceRequest, context: RequestContext, services: ProduceServices
) -> Slices[dict[int, ApiError]]:
    """Return the errors of batches that fail inspection or use a codec newer than the request's version.

    The key is the `id` of the partition's data.
    """
    faults: dict[int, ApiError] = {}
    for topic in message.topic_data:
        yield None
        hosted = hosted_topic(topic, services.partitions)
        if hosted is None or topic_refusal(topic, hosted, context, services.security, logs=False):
            continue
        note_written(context.connection, hosted.name)
        for data in topic.partition_data:
            yield None
            try:
                log = hosted.log(data.index)
                if log is None or data.records is None:
                    continue
                codec = codec_of(data.records)
                if codec == Codec.ZSTD and context.api_version < ZSTD_SINCE:
                    raise ApiError(
                        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
                        f"Produce requests with version {context.api_version} are not allowed to use zstd",
                    )
                if codec >= log.inspects_from:
                    data.records = yield from log.inspect(
                        memoryview(data.records), context.wall_ms, message.transactional_id is not None
                    )
            except ApiError as error:
                faults[id(data)] = error
    return faults
