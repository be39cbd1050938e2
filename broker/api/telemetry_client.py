"""Identifies the client of a telemetry request for broker.telemetry."""

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
