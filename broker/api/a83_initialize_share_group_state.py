"""InitializeShareGroupState: sets the start offset of a share group in a partition, with no records in
flight.

Version 0. A start offset of -1 leaves it to `share.auto.offset.reset`. Replaces an earlier state unless that
has a higher state epoch (FENCED_STATE_EPOCH). (KIP-932)
"""

from typing import Any

from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome
from broker.api.requests.services import ShareStateServices
from broker.api.share.state_requests import answer
from broker.coordinator.share.persister import WrittenState
from broker.coordinator.share.states import SharePartitionKey
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeStateResult,
    PartitionResult,
)


@api(ApiKey.INITIALIZE_SHARE_GROUP_STATE, versions=(0, 0), services=ShareStateServices)
def handle(
    message: InitializeShareGroupStateRequest, context: RequestContext, services: ShareStateServices
) -> Outcome:
    def initialize(key: SharePartitionKey, asked: Any, _result: PartitionResult) -> WrittenState:
        return services.persister.stage_initial(key, asked.state_epoch, asked.start_offset)

    make = (InitializeShareGroupStateResponse, InitializeStateResult, PartitionResult)
    return answer(message.group_id, message.topics, make, initialize, context, services)
