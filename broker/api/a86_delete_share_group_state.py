"""DeleteShareGroupState: deletes the stored state of a share partition.

Version 0. Without a state, nothing happens. (KIP-932)
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
from broker.protocol.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    DeleteStateResult,
    PartitionResult,
)


@api(ApiKey.DELETE_SHARE_GROUP_STATE, versions=(0, 0), services=ShareStateServices)
def handle(
    message: DeleteShareGroupStateRequest, context: RequestContext, services: ShareStateServices
) -> Outcome:
    def delete(key: SharePartitionKey, _asked: Any, _result: PartitionResult) -> WrittenState | None:
        if services.persister.state(key) is None:
            return None
        return services.persister.stage_deletion(key)

    make = (DeleteShareGroupStateResponse, DeleteStateResult, PartitionResult)
    return answer(message.group_id, message.topics, make, delete, context, services)
