"""Plans the allocation of a block of producer ids. (Kafka: ProducerIdControlManager)"""

from typing import Final

from broker.common.errors import ApiError, ErrorCode
from broker.controller.commands import AllocateProducerIds, ProducerIdBlock
from broker.controller.plan import Plan, Situation
from broker.metadata.actor import Role
from broker.metadata.changes import Change, ChangeKind

_END: Final = 2**63


def plan_producer_ids(command: AllocateProducerIds, at: Situation) -> Plan[ProducerIdBlock]:
    """Raise ApiError for a missing role, and UNKNOWN_SERVER_ERROR if all 2**63 ids are allocated."""
    at.require(Role.ADMIN, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    first, after = at.image.next_producer_id, at.image.next_producer_id + command.count
    if command.count < 1 or after > _END:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "All producer ids are allocated")
    return Plan(
        ProducerIdBlock(first, command.count), (Change(ChangeKind.PRODUCER_IDS, "", "next", str(after)),)
    )
