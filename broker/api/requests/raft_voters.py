"""The common part of AddRaftVoter and RemoveRaftVoter: this broker always is the only voter. (KIP-853)

(Kafka: KafkaRaftClient.handleAddVoterRequest, handleRemoveVoterRequest, with kraft.version 0)
"""

from typing import Final, NamedTuple, Protocol

from broker.api.requests.context import RequestContext
from broker.api.requests.services import ControlServices
from broker.common.errors import ErrorCode
from broker.protocol.schema import ZERO_UUID
from broker.security.acl.acl import Operation

LONGEST_SHOWN: Final = 64
"""Characters of a cluster id that a message repeats; ours."""


class VoterRequest(Protocol):
    """A request to change the voters."""

    cluster_id: str | None
    voter_id: int
    voter_directory_id: bytes


class VoterRefusal(NamedTuple):
    code: ErrorCode
    message: str | None = None


def refusal(
    message: VoterRequest, context: RequestContext, services: ControlServices, *, change: str
) -> VoterRefusal:
    """Return why the voters cannot be changed; `change` is "Add" or "Remove"."""
    if not services.security.permits(context, Operation.ALTER):
        return VoterRefusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    ours, named = services.control.image.cluster_id, message.cluster_id
    if named is not None and named != ours:
        return VoterRefusal(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f'The given id "{named[:LONGEST_SHOWN]}" doesn\'t match the cluster id "{ours}"',
        )
    if message.voter_id < 0 or message.voter_directory_id == ZERO_UUID:
        return VoterRefusal(ErrorCode.INVALID_REQUEST, f"{change} voter request didn't include a valid voter")
    ending = "adding" if change == "Add" else "removing"
    return VoterRefusal(
        ErrorCode.UNSUPPORTED_VERSION,
        f"Cluster doesn't support {ending} voter because the kraft.version feature is 0",
    )
