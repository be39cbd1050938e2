"""The APIs that the gateway can answer, and for each the requests that it does answer.

The gateway forwards every other request unchanged, so no request pays for a quota that is not set.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

from broker.api.registry import Api, Registry
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome
from broker.api.requests.services import ControlServices
from broker.api.security.client_security import ACCESS
from broker.config.table import BrokerConfig
from broker.gateway.api_versions import INTERNAL
from broker.gateway.apis import metadata, own_topics, streams_groups
from broker.gateway.apis.asking import Addresses, Handle
from broker.gateway.apis.configs import CONFIG_APIS, ConfigResources, answers_list, handle_list
from broker.gateway.apis.mutations import (
    MutationServices,
    answers_creation,
    handle_create_partitions,
    handle_create_topics,
    handle_delete_topics,
)
from broker.gateway.apis.roles import Roles, answers_refused, refuse_replica, refusing
from broker.gateway.own_topics import OwnTopics
from broker.gateway.routes import AnswersVersion
from broker.metadata.actor import Role
from broker.protocol.api_key import ApiKey
from broker.protocol.codec import known_versions

Answered = dict[int, AnswersVersion]

LISTS_CLIENT_METRICS: Final[dict[int, tuple[int, int]]] = {ApiKey.LIST_CONFIG_RESOURCES: (0, 0)}
"""APIs that the gateway offers although the upstream broker does not know them."""


class _Apis:
    """Collects the handlers and which requests they answer."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self.answered: Answered = {}

    def add(
        self, key: ApiKey, handle: Handle, answers: AnswersVersion, services: type = ControlServices
    ) -> None:
        self._registry.add(_api(key, handle, services))
        self.answered[key] = answers

    def add_guarded(
        self,
        key: ApiKey,
        roles: Roles,
        handle: Handle | None = None,
        answers: AnswersVersion | None = None,
        services: type = ControlServices,
    ) -> None:
        """Add an API whose clients need a role. Without `handle`, the others' requests are forwarded."""
        self.add(key, refusing(key, roles, handle), answers_refused(key, roles, answers), services)


def add_apis(
    registry: Registry,
    config: BrokerConfig,
    roles: Roles,
    has_mutation_quota: Callable[[], bool],
    addresses: Addresses,
    own: OwnTopics,
) -> Answered:
    """Add the APIs that the gateway answers at times to `registry`, which has those that it always answers.
    Return which requests it answers.
    """
    always = {entry.key for entry in registry}
    apis = _Apis(registry)
    apis.add(ApiKey.METADATA, metadata.metadata_handler(roles, addresses), metadata.answers_metadata(roles))
    apis.add(
        ApiKey.FIND_COORDINATOR,
        metadata.find_coordinator_handler(roles, addresses),
        metadata.answers_find_coordinator(roles),
    )
    apis.add(
        ApiKey.STREAMS_GROUP_HEARTBEAT,
        streams_groups.heartbeat_handler(roles),
        streams_groups.answers_heartbeat(roles),
    )
    names_own = own_topics.answers_own(own)
    # client_receive decides which Produce and Fetch the gateway answers.
    handle_produce = partial(own_topics.handle_produce, addresses)
    apis.add(ApiKey.PRODUCE, handle_produce, lambda _version: None, OwnTopics)
    apis.add(ApiKey.FETCH, _handle_fetch, lambda _version: None, OwnTopics)
    handle_share_fetch = partial(own_topics.handle_share_fetch, addresses)
    apis.add(ApiKey.SHARE_FETCH, handle_share_fetch, names_own, OwnTopics)

    def has_quota(_version: int) -> Callable[..., bool]:
        return lambda _frame, _channel: has_mutation_quota()

    creates = answers_creation(has_mutation_quota)
    changes = own_topics.answers_too(has_quota, names_own)
    apis.add_guarded(ApiKey.CREATE_TOPICS, roles, handle_create_topics, creates, MutationServices)
    apis.add_guarded(ApiKey.DELETE_TOPICS, roles, handle_delete_topics, changes, MutationServices)
    apis.add_guarded(ApiKey.CREATE_PARTITIONS, roles, handle_create_partitions, changes, MutationServices)
    for key, handle in own_topics.GUARDED.items():
        apis.add_guarded(key, roles, handle, names_own, OwnTopics)
    lists_client_metrics = config.gateway.quotas == "local" and config.telemetry.enabled
    resources = ConfigResources(roles, answers_client_metrics=lists_client_metrics)
    for key in CONFIG_APIS:
        apis.add(key, resources.handler(key), resources.answers(key))
    if lists_client_metrics:
        apis.add(ApiKey.LIST_CONFIG_RESOURCES, handle_list, answers_list)
    for number, access in ACCESS.items():
        key = ApiKey(number)
        needs_role = access.role_in(known_versions(key)[1]) > Role.VIEWER
        if needs_role and key not in apis.answered and key not in always | INTERNAL:
            apis.add_guarded(key, roles)
    return apis.answered


def _handle_fetch(message: Any, context: RequestContext, own: OwnTopics) -> Outcome | Awaitable[Outcome]:
    """Refuse a Fetch of a replica, or of topics that clients may not read."""
    if message.replica_id >= 0:
        return refuse_replica(message, context, own)
    return own_topics.handle_fetch(message, context, own)


def _api(key: ApiKey, handle: Callable[..., Any], services: type) -> Api:
    first, last = known_versions(key)
    return Api(
        key=key,
        min_version=first,
        max_version=last,
        handle=handle,
        services=services,
        before_login=False,
        advertised_min=first,
        unknown_version=None,
        fast_path=None,
        doc="",
    )
