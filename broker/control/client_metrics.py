"""Plans changes of client metrics subscriptions, config resources of type 16. (KIP-714; Kafka:
ControllerConfigurationValidator)

Called by `configs`. broker.telemetry validates subscriptions; this module applies them to the image. A
subscription exists while it has a setting: the first setting creates it, and removing the last deletes it.
"""

from collections.abc import Mapping

from broker.control.commands import ConfigAlteration
from broker.control.config_ops import apply_op
from broker.control.plan import Situation
from broker.errors import ApiError, ErrorCode
from broker.telemetry.subscription import read_subscription, subscription_setting


def current_subscription(alteration: ConfigAlteration, at: Situation) -> Mapping[str, str]:
    """Return its current settings. Raises ApiError INVALID_UPDATE_VERSION for a stale edit."""
    name, expected = alteration.resource.name, alteration.expected_version
    entry = at.image.client_metrics.get(name)
    version = 0 if entry is None else entry.version
    if expected not in (None, version):
        words = (
            f"is now version {version}"
            if entry is None
            else f"was changed by {entry.changed_by} (version {version})"
        )
        raise ApiError(ErrorCode.INVALID_UPDATE_VERSION, f"The subscription {name} {words}")
    return {} if entry is None else entry.configs


def apply_to_subscription(alteration: ConfigAlteration, current: Mapping[str, str]) -> dict[str, str]:
    """Return its settings with the ops applied. Raises ApiError as `read_subscription` does."""
    wanted = dict(current)
    for op in alteration.ops:
        setting = subscription_setting(op.key)
        apply_op(op, setting, wanted.get(op.key, setting.write(setting.default) or ""), wanted)
    read_subscription(alteration.resource.name, wanted)
    return wanted
