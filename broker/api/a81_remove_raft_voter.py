"""RemoveRaftVoter: removes a voter from the quorum of the metadata log, of which this broker is the only one.
(KIP-853)

Version 0. UNSUPPORTED_VERSION, as in a Kafka with kraft.version 0; another cluster's id is
INCONSISTENT_CLUSTER_ID, and a voter without id or directory INVALID_REQUEST.
"""

from broker.api.a80_add_raft_voter import refusal
from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome, Response
from broker.api.requests.services import ControlServices
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.raft_voters import RemoveRaftVoterRequest, RemoveRaftVoterResponse


@api(ApiKey.REMOVE_RAFT_VOTER, versions=(0, 0), services=ControlServices)
def handle(message: RemoveRaftVoterRequest, context: RequestContext, services: ControlServices) -> Outcome:
    why = refusal(message, context, services, change="Remove")
    return Response(RemoveRaftVoterResponse(error_code=why.code, error_message=why.message))
