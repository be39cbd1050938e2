"""ReadShareGroupState: returns the stored state of a share partition to its leader.

Version 0. A higher leader epoch than the stored one is stored, and fences earlier leaders from then on
(FENCED_LEADER_EPOCH). A share partition that is not initialized is an INVALID_REQUEST. (KIP-932)
"""

from typing import Any

from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome
from broker.api.requests.services import ShareStateServices
from broker.api.share.state_requests import answer
from broker.common.errors import ApiError, ErrorCode
from broker.coordinator.share.persister import READ_UNINITIALIZED, StateWrite, WrittenState
from broker.coordinator.share.states import NOT_SET, SharePartitionKey
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.read_share_group_state import (
    PartitionResult,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadStateResult,
    StateBatch,
)


@api(ApiKey.READ_SHARE_GROUP_STATE, versions=(0, 0), services=ShareStateServices)
def handle(
    message: ReadShareGroupStateRequest, context: RequestContext, services: ShareStateServices
) -> Outcome:
    def read(key: SharePartitionKey, asked: Any, result: PartitionResult) -> WrittenState | None:
        state = services.persister.state(key)
        if state is None:
            raise ApiError(ErrorCode.INVALID_REQUEST, READ_UNINITIALIZED)
        if asked.leader_epoch != -1 and state.leader_epoch > asked.leader_epoch:
            raise ApiError(ErrorCode.FENCED_LEADER_EPOCH)
        result.state_epoch, result.start_offset = state.state_epoch, state.start_offset
        result.state_batches = [StateBatch(*each) for each in state.batches]
        if asked.leader_epoch <= state.leader_epoch:
            return None
        return services.persister.stage_write(
            key, StateWrite(state.state_epoch, asked.leader_epoch, NOT_SET, ())
        )

    make = (ReadShareGroupStateResponse, ReadStateResult, PartitionResult)
    return answer(message.group_id, message.topics, make, read, context, services)
