"""GET /broker-quotas: broker-wide and cluster limits, with their use.

The limits are dynamic settings of the broker: PATCH /broker-configs changes them.
"""

from typing import Final

from webui.quotas.broker_wide import broker_quotas_json
from webui.rest.conditions import etag
from webui.rest.routing import Answer, Call, Reply, Route
from webui.rest.schema import Flag, Listing, Number, Record, Text

_COUNT: Final = Number(integer=True, least=0)
_MAYBE_COUNT: Final = Number(integer=True, least=0, nullable=True)
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
        "white_lists": Listing(Record({"key": Text(), "names": Listing(Text(longest=32_767))})),
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
        "command": Text(longest=4096),
    }
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
        {200: Answer("The limits; ETag: the version of the broker's settings", BROKER_QUOTAS)},
    ),
)
