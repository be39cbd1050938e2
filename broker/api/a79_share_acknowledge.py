"""ShareAcknowledge: accepts, releases or rejects records that a member of a share group has acquired.

Versions 1-2. Each partition succeeds or fails as a whole, and what succeeds is stored before the response.
Records that the member does not hold are INVALID_RECORD_STATE; those never delivered are an INVALID_REQUEST.
The request has the next epoch of the member's share session; -1 closes the session and releases what the
member holds. Version 2 can renew the locks of records (KIP-1222). The response does not wait for the dead
letters of rejected records (KIP-1191). (KIP-932)
"""

from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome, Response
from broker.api.requests.services import ShareServices
from broker.api.share.acknowledgements import Acknowledging, is_too_large
from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import Slices
from broker.coordinator.share.sessions import FINAL_EPOCH, FIRST_EPOCH, MemberKey
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.share_acknowledge import (
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from broker.security.acl.acl import Operation


@api(ApiKey.SHARE_ACKNOWLEDGE, versions=(1, 2), services=ShareServices)
def handle(
    message: ShareAcknowledgeRequest, context: RequestContext, services: ShareServices
) -> Slices[Outcome]:
    group_id, member_id = message.group_id, message.member_id
    if not group_id or not member_id or is_too_large(message.topics):
        return _refused(ErrorCode.INVALID_REQUEST)
    if not services.security.allows_group(context, Operation.READ, group_id):
        return _refused(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    member, epoch = MemberKey(group_id, member_id), message.share_session_epoch
    try:
        if epoch == FIRST_EPOCH:
            raise ApiError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        session = services.sessions.find(member)
        if epoch != FINAL_EPOCH:
            services.sessions.resume(member, epoch)
    except ApiError as error:
        return _refused(error.code)
    acknowledging = Acknowledging(group_id, member_id, context, services, renews=message.is_renew_ack)
    yield from acknowledging.acknowledge(message.topics)
    if epoch == FINAL_EPOCH:
        services.sessions.close(member)
        yield from acknowledging.release(session.partitions)

    def respond() -> Response:
        topics: dict[bytes, list[PartitionData]] = {}
        for key, failure in acknowledging.results.items():
            data = PartitionData(key.partition, failure.code, failure.message)
            topics.setdefault(key.topic_id, []).append(data)
        responses = [ShareAcknowledgeTopicResponse(topic_id, found) for topic_id, found in topics.items()]
        lock_ms = services.share.settings_of(group_id).record_lock_duration_ms
        return Response(ShareAcknowledgeResponse(acquisition_lock_timeout_ms=lock_ms, responses=responses))

    return acknowledging.then(respond)


def _refused(error: ErrorCode) -> Response:
    return Response(ShareAcknowledgeResponse(error_code=error))
