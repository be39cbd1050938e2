"""AddRaftVoter: adds a voter to the quorum of the metadata log, of which this broker is the only one.
(KIP-853)

Version 0. UNSUPPORTED_VERSION, as in a Kafka with kraft.version 0; another cluster's id is
INCONSISTENT_CLUSTER_ID, and a voter without id or directory INVALID_REQUEST.

Left out: the check that the voter names the controller's listener, which this broker does not have.
"""

from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome, Response
from broker.api.requests.raft_voters import refusal
from broker.api.requests.services import ControlServices
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse


@api(ApiKey.ADD_RAFT_VOTER, versions=(0, 0), services=ControlServices)
def handle(message: AddRaftVoterRequest, context: RequestContext, services: ControlServices) -> Outcome:
    why = refusal(message, context, services, change="Add")
    return Response(AddRaftVoterResponse(error_code=why.code, error_message=why.message))
