"""Which APIs the gateway answers in part, by its configuration, and which of their requests.

A request that is not the gateway's is forwarded untouched, so that nobody pays for a quota that is not set.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from broker.api.registry import Api, Registry
from broker.api.services import ControlServices
from broker.config.table import BrokerConfig
from broker.gateway.apis import (
    a19_create_topics,
    a20_delete_topics,
    a37_create_partitions,
    a74_list_config_resources,
    own_topics,
)
from broker.gateway.apis.configs import CONFIG_APIS, answers_configs, handler
from broker.gateway.apis.mutations import MutationServices
from broker.gateway.own_topics import OwnTopics
from broker.gateway.routes import AnswersVersion
from broker.protocol.api_key import ApiKey
from broker.protocol.codec import known_versions

Answered = dict[int, AnswersVersion]

MUTATIONS: Final[dict[ApiKey, Callable[..., Any]]] = {
    ApiKey.CREATE_TOPICS: a19_create_topics.handle,
    ApiKey.DELETE_TOPICS: a20_delete_topics.handle,
    ApiKey.CREATE_PARTITIONS: a37_create_partitions.handle,
}

LISTS_CLIENT_METRICS: Final[dict[int, tuple[int, int]]] = {ApiKey.LIST_CONFIG_RESOURCES: (0, 0)}
"""APIs that the gateway offers although the upstream broker does not know them."""


def answers_mutations(is_active: Callable[[], bool]) -> AnswersVersion:
    """Return the answer for all versions: whether any client has a controller mutation quota now."""
    return lambda _version: lambda _frame: is_active()


def add_apis(
    registry: Registry, config: BrokerConfig, has_mutation_quota: Callable[[], bool], own: OwnTopics
) -> Answered:
    """Add the APIs that the gateway answers in part to `registry`. Return which requests it answers."""
    answered: Answered = {}
    names_own = own_topics.answers_own(own)
    for key, handle in MUTATIONS.items():
        registry.add(_api(key, handle, MutationServices))
        answered[key] = answers_mutations(has_mutation_quota)
    for key in (ApiKey.DELETE_TOPICS, ApiKey.CREATE_PARTITIONS):
        answered[key] = own_topics.answers_too(answered[key], names_own)
    for key, refuse in own_topics.HANDLERS.items():
        registry.add(_api(key, refuse, OwnTopics))
        answered[key] = names_own
    has_client_metrics = config.gateway.quotas == "local" and config.telemetry.enabled
    for key in CONFIG_APIS:
        changes = key != ApiKey.DESCRIBE_CONFIGS
        if has_client_metrics or changes:
            registry.add(_api(key, handler(key, has_client_metrics=has_client_metrics), ControlServices))
        if has_client_metrics:
            answered[key] = partial(answers_configs, key)
        if changes:
            answered[key] = (
                own_topics.answers_too(answered[key], names_own) if has_client_metrics else names_own
            )
    if has_client_metrics:
        registry.add(_api(ApiKey.LIST_CONFIG_RESOURCES, a74_list_config_resources.handle, ControlServices))
        answered[ApiKey.LIST_CONFIG_RESOURCES] = a74_list_config_resources.answers_list
    return answered


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
