"""Broker-wide limits as JSON, for GET /broker-quotas and for the live stream."""

import shlex
from typing import Any

from broker.control.rows.broker_quotas import BrokerQuotas
from broker.control.views import Overview, Views
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
        "command": _command(views.overview()),
    }


def _retry_storm_json(row: BrokerQuotas) -> dict[str, Any]:
    storm = row.retry_storm
    return {"enabled": storm.is_enabled, "max_delay_ms": storm.max_delay_ms} | named(storm.use)


def _command(overview: Overview) -> str:
    """Return the prefix of the command that changes the limits."""
    bootstrap = next(iter(overview.bootstrap), "localhost:9092")
    words = ["kafka-configs.sh", "--bootstrap-server", bootstrap, "--alter", "--entity-type", "brokers"]
    return shlex.join([*words, "--entity-name", str(overview.node_id)])
