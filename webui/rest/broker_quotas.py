"""GET /broker-quotas: broker-wide and cluster limits, with their use.

The limits are dynamic settings of the broker: PATCH /broker-configs changes them.
"""

import shlex
from typing import Any, Final

from broker.controller.rows.quotas import BrokerQuotas
from broker.views.views import ServerInfo, Views
from webui.rest.routing import Call, Reply, ResponseSpec, Route, etag
from webui.schema import Flag, Listing, Number, Record, Text
from webui.tables.json_output import finite, named


def broker_quotas_json(views: Views) -> dict[str, Any]:
    row = views.broker_quotas()
    return {
        "enabled": row.is_enabled,
        "limits": [
            named(each) | {"kind": str(each.kind), "observed": finite(each.observed)} for each in row.limits
        ],
        "white_lists": [{"key": each.key, "names": list(each.names)} for each in row.white_lists],
        "cluster": [named(each) for each in row.cluster],
        "retry_storm": _retry_storm_json(row),
        "version": row.version,
        "command": alter_brokers(views.server_info()),
    }


def _retry_storm_json(row: BrokerQuotas) -> dict[str, Any]:
    storm = row.retry_storm
    return {"enabled": storm.is_enabled, "max_delay_ms": storm.max_delay_ms} | named(storm.use)


def alter_brokers(info: ServerInfo, *, is_default: bool = False) -> str:
    """Return the prefix of the command that changes settings of this broker, or of all."""
    words = [*info.endpoint.tool("kafka-configs.sh"), "--alter"]
    entity = ["--entity-default"] if is_default else ["--entity-name", str(info.node_id)]
    return shlex.join([*words, "--entity-type", "brokers", *entity])


_COUNT: Final = Number(integer=True, minimum=0)
_MAYBE_COUNT: Final = Number(integer=True, minimum=0, nullable=True)
BROKER_QUOTAS: Final = Record(
    {
        "enabled": Flag(),
        "limits": Listing(
            Record(
                {
                    "kind": Text(),
                    "key": Text(),
                    "unit": Text(),
                    "value": Number(nullable=True),
                    "observed": Number(nullable=True),
                    "throttled": _COUNT,
                    "throttles": _COUNT,
                    "throttle_ms": _COUNT,
                }
            )
        ),
        "white_lists": Listing(Record({"key": Text(), "names": Listing(Text(max_length=32_767))})),
        "cluster": Listing(Record({"key": Text(), "value": _MAYBE_COUNT, "count": _COUNT})),
        "retry_storm": Record(
            {
                "enabled": Flag(),
                "max_delay_ms": _COUNT,
                "delayed": _COUNT,
                "delayed_ms": _COUNT,
                "waiting": _COUNT,
            }
        ),
        "version": _COUNT,
        "command": Text(max_length=4096),
    },
    title="BrokerQuotas",
)


async def broker_quotas(call: Call) -> Reply:
    answer = broker_quotas_json(call.console.backend.views)
    return Reply(answer, headers={"ETag": etag(answer["version"])})


ROUTES: Final = (
    Route(
        "GET",
        "/api/v1/broker-quotas",
        "getBrokerQuotas",
        "Broker-wide and cluster limits, with their use. PATCH /broker-configs changes them.",
        broker_quotas,
        {200: ResponseSpec("The limits; ETag: the version of the broker's settings", BROKER_QUOTAS)},
    ),
)
