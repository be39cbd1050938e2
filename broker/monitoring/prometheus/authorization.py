"""Metric families of the authorizer: its ACLs, and what it has denied. (Kafka: AuthorizerMetrics)"""

from collections.abc import Iterator

from broker.metrics.families import FamilySamples, Kind, Sample
from broker.security.acl.acl import Operation, ResourceType
from broker.security.acl.authorizer import Authorizer


def authorizer_families(authorizer: Authorizer) -> Iterator[FamilySamples]:
    yield FamilySamples(
        "weir_authorizer_acls", "ACLs in force", Kind.GAUGE, [Sample((), authorizer.acl_count)]
    )
    denied = [
        Sample(
            (("operation", Operation(operation).name), ("resource_type", ResourceType(resource_type).name)),
            count,
        )
        for (operation, resource_type), count in sorted(authorizer.denials.items())
    ]
    yield FamilySamples(
        "weir_authorizer_denied_total",
        "Operations that the authorizer has denied to clients, the ones without a line in the log included",
        Kind.COUNTER,
        denied,
    )
