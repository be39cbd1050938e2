"""InitProducerId: assigns an id and an epoch to an idempotent producer.

Versions 0-5. Every request gets a new id at epoch 0, even if it names its current id (from version 3,
KIP-360), as in Kafka for producers without a transactional id. An id is never reused, even after a restart.
Left out: transactions (a transactional id is refused), two-phase commit (version 6).
"""

from collections.abc import Awaitable
from typing import Final

from broker.api.client_security import ClientSecurity
from broker.api.context import RequestContext
from broker.api.outcome import Outcome, Response
from broker.api.registry import api
from broker.api.services import ProducerIdServices
from broker.authorization.acl import Operation, ResourceType
from broker.control.commands import BROKER_ITSELF, AllocateProducerIds
from broker.errors import ApiError, BrokerBug, ErrorCode
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
FIRST_EPOCH: Final = 0


@api(ApiKey.INIT_PRODUCER_ID, versions=(0, 5), services=ProducerIdServices)
def handle(
    message: InitProducerIdRequest, context: RequestContext, services: ProducerIdServices
) -> Outcome | Awaitable[Outcome]:
    if message.transactional_id is not None:
        return _refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not _may_produce(context, services.security):
        return _refused(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if (message.producer_id == NO_PRODUCER_ID) != (message.producer_epoch == NO_EPOCH):
        return _refused(ErrorCode.INVALID_REQUEST)
    producer_id = services.producer_ids.take()
    return _from_next_block(services) if producer_id is None else _response(producer_id)


def _may_produce(context: RequestContext, security: ClientSecurity) -> bool:
    """Whether the client may write to the cluster or to any topic."""
    return security.allows_any(context, Operation.WRITE, ResourceType.TOPIC) or security.allows_cluster(
        context, Operation.IDEMPOTENT_WRITE
    )


async def _from_next_block(services: ProducerIdServices) -> Outcome:
    try:
        block = await services.control.apply(AllocateProducerIds(), BROKER_ITSELF)
    except ApiError:
        # A disk error. Kafka responds with this code if no block arrives in time, and producers retry.
        return _refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    services.producer_ids.add(range(block.first, block.first + block.count))
    producer_id = services.producer_ids.take()
    if producer_id is None:
        raise BrokerBug("the allocated block of producer ids is empty")
    return _response(producer_id)


def _response(producer_id: int) -> Outcome:
    return Response(InitProducerIdResponse(producer_id=producer_id, producer_epoch=FIRST_EPOCH))


def _refused(error: ErrorCode) -> Outcome:
    return Response(InitProducerIdResponse(error_code=error, producer_epoch=NO_EPOCH))
