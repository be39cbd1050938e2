"""WriteShareGroupState: changes the stored state of a share partition.

Version 0. FENCED_STATE_EPOCH and FENCED_LEADER_EPOCH refuse a writer that is out of date; a share partition
that is not initialized, and a range or state that no record can have, are an INVALID_REQUEST. The start
offset never moves back. (KIP-932)
"""

from typing import Any

from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome
from broker.api.requests.services import ShareStateServices
from broker.api.share.state_requests import answer
from broker.common.errors import ApiError, ErrorCode
from broker.coordinator.share.persister import StateWrite, WrittenState
from broker.coordinator.share.states import STORED, RecordState, SharePartitionKey, StateBatch
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.write_share_group_state import (
    PartitionResult,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStateResult,
)


@api(ApiKey.WRITE_SHARE_GROUP_STATE, versions=(0, 0), services=ShareStateServices)
def handle(
    message: WriteShareGroupStateRequest, context: RequestContext, services: ShareStateServices
) -> Outcome:
    def write(key: SharePartitionKey, asked: Any, _result: PartitionResult) -> WrittenState:
        batches = [_batch(each) for each in asked.state_batches]
        change = StateWrite(asked.state_epoch, asked.leader_epoch, asked.start_offset, batches)
        return services.persister.stage_write(key, change)

    make = (WriteShareGroupStateResponse, WriteStateResult, PartitionResult)
    return answer(message.group_id, message.topics, make, write, context, services)


def _batch(asked: Any) -> StateBatch:
    first, last = asked.first_offset, asked.last_offset
    if not 0 <= first <= last or asked.delivery_state not in STORED or asked.delivery_count < 0:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Invalid state batch from {first} to {last}")
    return StateBatch(first, last, RecordState(asked.delivery_state), asked.delivery_count)
