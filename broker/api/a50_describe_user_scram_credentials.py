"""DescribeUserScramCredentials: lists the users with SCRAM credentials and their iterations. (KIP-554)

Version 0. A null or empty list of names selects all users with a credential. A user without a credential and
a repeated user are errors.
"""

from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome, Response
from broker.api.requests.pacing import mapped
from broker.api.requests.services import ControlServices
from broker.common.errors import ErrorCode
from broker.common.slices import Slices
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from broker.security.acl.acl import Operation
from broker.security.scram import MECHANISMS


@api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, versions=(0, 0), services=ControlServices)
def handle(
    message: DescribeUserScramCredentialsRequest, context: RequestContext, services: ControlServices
) -> Slices[Outcome]:
    if not services.security.allows_cluster(context, Operation.DESCRIBE):
        return Response(
            DescribeUserScramCredentialsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        )
    requested: dict[str, int] = {}
    image = services.control.image
    for name in (user.name for user in message.users) if message.users else image.scram:
        requested[name] = requested.get(name, 0) + 1
        yield None
    results = yield from mapped(lambda each: _result(*each, services), requested.items())
    reply = DescribeUserScramCredentialsResponse(results=results)
    return Response(reply, cacheable=services.control.image is image)


def _result(name: str, times: int, services: ControlServices) -> DescribeUserScramCredentialsResult:
    if times > 1:
        return DescribeUserScramCredentialsResult(
            name,
            ErrorCode.DUPLICATE_RESOURCE,
            f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}",
        )
    known = services.control.image.scram.get(name)
    if known is None:
        return DescribeUserScramCredentialsResult(
            name,
            ErrorCode.RESOURCE_NOT_FOUND,
            f"Attempt to describe a user credential that does not exist: {name}",
        )
    infos = [CredentialInfo(MECHANISMS[key].code, credential.iterations) for key, credential in known.items()]
    return DescribeUserScramCredentialsResult(name, credential_infos=infos)
