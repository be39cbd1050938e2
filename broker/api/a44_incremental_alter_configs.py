"""IncrementalAlterConfigs: sets, deletes, appends to or subtracts from single configs. (KIP-339)

Versions 0-1. Unnamed configs stay. The changes of one resource succeed or fail together; resources are
independent. Logger levels (KIP-412) last until the broker stops, as in Kafka. A broker takes unknown keys, as
in Kafka: they are stored as secrets, described without a value, and each leaves a warning, because nothing
reads them. The lists of client metrics subscriptions can be appended to (Kafka: INVALID_CONFIG). To append to
an unknown key is INVALID_CONFIG (Kafka: UNKNOWN_SERVER_ERROR).
"""

from collections.abc import Awaitable
from typing import Final

from broker.api.a33_alter_configs import ConfigChanges, alter_configs
from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome
from broker.api.requests.services import ControlServices
from broker.common.slices import Slices
from broker.controller.commands import ConfigOp
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

_CHANGES: Final = ConfigChanges(
    operation=lambda config: ConfigOp(config.name, config.config_operation, config.value),
    result=AlterConfigsResourceResponse,
    reply=lambda responses: IncrementalAlterConfigsResponse(responses=responses),
    replaces=False,
)


@api(ApiKey.INCREMENTAL_ALTER_CONFIGS, versions=(0, 1), services=ControlServices)
def handle(
    message: IncrementalAlterConfigsRequest, context: RequestContext, services: ControlServices
) -> Slices[Outcome | Awaitable[Outcome]]:
    return (yield from alter_configs(_CHANGES, message.resources, message.validate_only, context, services))
