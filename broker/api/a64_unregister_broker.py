"""UnregisterBroker: removes a stopped broker from the cluster, which has only this one. (KIP-500)

Version 0. Another broker is BROKER_ID_NOT_REGISTERED, and this one INVALID_REQUEST: it serves the request, so
it has not stopped.
"""

from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome, Response
from broker.api.requests.services import ControlServices
from broker.common.errors import ErrorCode
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from broker.security.acl.acl import Operation


@api(ApiKey.UNREGISTER_BROKER, versions=(0, 0), services=ControlServices)
def handle(message: UnregisterBrokerRequest, context: RequestContext, services: ControlServices) -> Outcome:
    if not services.security.permits(context, Operation.ALTER):
        return _refused(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None)
    if message.broker_id != services.node_id:
        return _refused(
            ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {message.broker_id} is not currently registered"
        )
    return _refused(
        ErrorCode.INVALID_REQUEST, f"Broker ID {message.broker_id} serves this request and cannot be removed"
    )


def _refused(error: ErrorCode, message: str | None) -> Outcome:
    return Response(UnregisterBrokerResponse(error_code=error, error_message=message))
