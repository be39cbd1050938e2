"""GET /broker-quotas: broker-wide and cluster limits, with their use.

The limits are dynamic settings of the broker: PATCH /broker-configs changes them.
"""

import shlex
from typing import Any, Final

from broker.controller.rows.broker import ServerInfo
from broker.controller.rows.quotas import BrokerQuotas
from broker.views.console import Views
from webui.rest.replies import versioned
from webui.rest.routing import Call, Reply, ResponseSpec, Route
from webui.schema import Text
from webui.tables.answers import as_json, schema_of


def broker_quotas_json(views: Views) -> dict[str, Any]:
    return as_json(views.quotas.broker_quotas()) | {"command": alter_brokers(views.server_info())}


def alter_brokers(info: ServerInfo, *, is_default: bool = False) -> str:
    """Return the prefix of the command that changes settings of this broker, or of all."""
    words = [*info.endpoint.tool("kafka-configs.sh"), "--alter"]
    entity = ["--entity-default"] if is_default else ["--entity-name", str(info.node_id)]
    return shlex.join([*words, "--entity-type", "brokers", *entity])


BROKER_QUOTAS: Final = schema_of(BrokerQuotas, "BrokerQuotas", command=Text(max_length=4096))


async def broker_quotas(call: Call) -> Reply:
    answer = broker_quotas_json(call.views)
    return versioned(answer, answer["version"])


ROUTES: Final = (
    Route(
        "GET /api/v1/broker-quotas",
        "getBrokerQuotas",
        "Broker-wide and cluster limits, with their use. PATCH /broker-configs changes them.",
        broker_quotas,
        {200: ResponseSpec("The limits; ETag: the version of the broker's settings", BROKER_QUOTAS)},
    ),
)
