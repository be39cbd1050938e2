"""ListGroups: lists the groups: all if the client may describe the cluster, else those that it may describe.

Versions 0-5. Filters by state from version 4 and by type from 5; an empty filter selects all groups, and a
filter with only unknown states or types selects none.
"""

from collections.abc import Iterable
from typing import Final

from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome, Response
from broker.api.requests.services import GroupServices
from broker.common.slices import Slices
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from broker.security.acl.acl import Operation

MAX_NAMES: Final = 64
LONGEST_NAME: Final = 64


@api(ApiKey.LIST_GROUPS, versions=(0, 5), services=GroupServices)
def handle(message: ListGroupsRequest, context: RequestContext, services: GroupServices) -> Slices[Outcome]:
    security = services.security
    lists_all = security.allows_cluster(context, Operation.DESCRIBE, logs=False)
    states = yield from _filter(message.states_filter)
    types = yield from _filter(message.types_filter)
    groups: list[ListedGroup] = []
    for some in services.groups.coordinator.listed_in_pieces(states, types):
        groups += [
            ListedGroup(each.group_id, each.protocol_type, each.state, each.group_type)
            for each in some
            if lists_all or security.allows_group(context, Operation.DESCRIBE, each.group_id, logs=False)
        ]
        yield None
    return Response(ListGroupsResponse(groups=groups))


def _filter(names: Iterable[str]) -> Slices[set[str]]:
    """Return the first MAX_NAMES distinct names.

    There are fewer states and types than that, so further names match nothing.
    """
    wanted: set[str] = set()
    for name in names:
        if len(wanted) < MAX_NAMES:
            wanted.add(name[:LONGEST_NAME].strip().lower())
        yield None
    return wanted
