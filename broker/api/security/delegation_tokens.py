"""The common parts of the handlers of delegation tokens: the clients that may send them, and principals as
text.
"""

from broker.api.requests.context import RequestContext
from broker.common.principal import ANONYMOUS, Principal


def may_request_tokens(context: RequestContext) -> bool:
    """Whether the client has logged in, and not with a token itself. (Kafka: KafkaApis.allowTokenRequests)"""
    connection = context.connection
    return connection.principal != ANONYMOUS and not connection.by_token


def requester_of(context: RequestContext) -> str:
    return str(Principal(context.connection.principal))


def principal_of(kind: str, name: str) -> str:
    return str(Principal(name, kind))


def split_principal(text: str) -> tuple[str, str]:
    """Return type and name of a principal."""
    kind, _, name = text.partition(":")
    return kind, name
