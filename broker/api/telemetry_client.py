"""Who sends a telemetry request, as broker.telemetry wants to know it. Used by its two handlers."""

from broker.api.context import RequestContext
from broker.telemetry.instance import Client


def telemetry_client(context: RequestContext) -> Client:
    connection = context.connection
    return Client(
        connection.id,
        context.client_id,
        connection.software_name,
        connection.software_version,
        connection.address,
        connection.port,
        connection.principal,
    )
