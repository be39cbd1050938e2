"""ListGroups: which groups there are.

Versions 0-5. From 4 on filtered by state, from 5 on by type too; an empty filter lets all pass, one
of states or types that nobody knows lets none pass.
"""

from broker.api.broker import Broker
from broker.api.context import RequestContext
from broker.api.outcome import Answered, Outcome
from broker.api.registry import api
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse


@api(ApiKey.LIST_GROUPS, versions=(0, 5))
def handle(message: ListGroupsRequest, _context: RequestContext, broker: Broker) -> Outcome:
    listed = broker.groups.coordinator.listed(message.states_filter, message.types_filter)
    groups = [ListedGroup(each.group_id, each.protocol_type, each.state, each.group_type) for each in listed]
    return Answered(ListGroupsResponse(groups=groups))
