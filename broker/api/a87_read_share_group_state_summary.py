"""ReadShareGroupStateSummary: returns the start offset of a share group in a partition, and its epochs.

Version 0. A share partition that is not initialized has start offset -1 and state epoch 0. (KIP-932)
"""

from typing import Any

from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome
from broker.api.requests.services import ShareStateServices
from broker.api.share.state_requests import answer
from broker.coordinator.share.states import NOT_SET, SharePartitionKey
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.read_share_group_state_summary import (
    PartitionResult,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
)


@api(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, versions=(0, 0), services=ShareStateServices)
def handle(
    message: ReadShareGroupStateSummaryRequest, context: RequestContext, services: ShareStateServices
) -> Outcome:
    def read(key: SharePartitionKey, _asked: Any, result: PartitionResult) -> None:
        found = services.persister.summary(*key)
        result.start_offset = NOT_SET
        if found is not None:
            result.start_offset, result.state_epoch, result.leader_epoch = found

    make = (ReadShareGroupStateSummaryResponse, ReadStateSummaryResult, PartitionResult)
    return answer(message.group_id, message.topics, make, read, context, services)
