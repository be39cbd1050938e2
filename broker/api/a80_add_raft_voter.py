"""AddRaftVoter: adds a voter to the quorum of the metadata log, of which this broker is the only one.
(KIP-853)

Versions 0-1. UNSUPPORTED_VERSION, as in a Kafka with kraft.version 0; another cluster's id is
INCONSISTENT_CLUSTER_ID, and a voter without id or directory INVALID_REQUEST.
`ack_when_committed` of version 1 has no effect.

Left out: the check that the voter names the controller's listener, which this broker does not have.
"""

from typing import Final, NamedTuple, Protocol

from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome, Response
from broker.api.requests.services import ControlServices
from broker.common.errors import ErrorCode
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.raft_voters import AddRaftVoterRequest, AddRaftVoterResponse
from broker.protocol.schema import ZERO_UUID
from broker.security.acl.acl import Operation

LONGEST_SHOWN: Final = 64
"""Characters of a cluster id that a message repeats; ours."""


class VoterRequest(Protocol):
    """A request to change the voters."""

    cluster_id: str | None
    voter_id: int
    voter_directory_id: bytes


class Refusal(NamedTuple):
    code: ErrorCode
    message: str | None = None


def refusal(
    message: VoterRequest, context: RequestContext, services: ControlServices, *, change: str
) -> Refusal:
    """Return why the voters cannot be changed; `change` is "Add" or "Remove". For RemoveRaftVoter too.
    (Kafka: KafkaRaftClient.handleAddVoterRequest, handleRemoveVoterRequest, with kraft.version 0)
    """
    if not services.security.permits(context, Operation.ALTER):
        return Refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    ours, named = services.control.image.cluster_id, message.cluster_id
    if named is not None and named != ours:
        return Refusal(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f'The given id "{named[:LONGEST_SHOWN]}" doesn\'t match the cluster id "{ours}"',
        )
    if message.voter_id < 0 or message.voter_directory_id == ZERO_UUID:
        return Refusal(ErrorCode.INVALID_REQUEST, f"{change} voter request didn't include a valid voter")
    ending = "adding" if change == "Add" else "removing"
    return Refusal(
        ErrorCode.UNSUPPORTED_VERSION,
        f"Cluster doesn't support {ending} voter because the kraft.version feature is 0",
    )


@api(ApiKey.ADD_RAFT_VOTER, versions=(0, 1), services=ControlServices)
def handle(message: AddRaftVoterRequest, context: RequestContext, services: ControlServices) -> Outcome:
    why = refusal(message, context, services, change="Add")
    return Response(AddRaftVoterResponse(error_code=why.code, error_message=why.message))
