"""UnregisterController: removes a stopped controller from the quorum, of which this broker is the only one.

Version 0. Another controller is CONTROLLER_ID_NOT_REGISTERED, and this one INVALID_REQUEST: it is active.
"""

from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome, Response
from broker.api.requests.services import ControlServices
from broker.common.errors import ErrorCode
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.unregister_controller import (
    UnregisterControllerRequest,
    UnregisterControllerResponse,
)
from broker.security.acl.acl import Operation


@api(ApiKey.UNREGISTER_CONTROLLER, versions=(0, 0), services=ControlServices)
def handle(
    message: UnregisterControllerRequest, context: RequestContext, services: ControlServices
) -> Outcome:
    if not services.security.permits(context, Operation.ALTER):
        return _refused(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None)
    if message.controller_id != services.node_id:
        return _refused(
            ErrorCode.CONTROLLER_ID_NOT_REGISTERED,
            f"Controller ID {message.controller_id} is not currently registered.",
        )
    return _refused(ErrorCode.INVALID_REQUEST, "Controller cannot unregister itself while it is active.")


def _refused(error: ErrorCode, message: str | None) -> Outcome:
    return Response(UnregisterControllerResponse(error_code=error, error_message=message))
