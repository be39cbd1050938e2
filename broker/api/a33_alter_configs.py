"""AlterConfigs: replaces all configs of a resource; the predecessor of IncrementalAlterConfigs.

Versions 0-2. Configs that the request does not name are removed. Left out: loggers, as in Kafka, and groups
(such a resource is an invalid request).
"""

from collections.abc import Awaitable
from typing import Final

from broker.api.configs.changes import ConfigChanges, alter_configs
from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome
from broker.api.requests.services import ControlServices
from broker.controller.commands import ConfigOp, OpType
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

_CHANGES: Final = ConfigChanges(
    operation=lambda config: ConfigOp(config.name, OpType.SET, config.value),
    result=AlterConfigsResourceResponse,
    reply=lambda responses: AlterConfigsResponse(responses=responses),
    replaces=True,
)


@api(ApiKey.ALTER_CONFIGS, versions=(0, 2), services=ControlServices)
def handle(
    message: AlterConfigsRequest, context: RequestContext, services: ControlServices
) -> Outcome | Awaitable[Outcome]:
    return alter_configs(_CHANGES, message.resources, message.validate_only, context, services)
