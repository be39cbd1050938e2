"""UpdateFeatures: changes the finalized level of features, which is fixed here. (KIP-584; Kafka:
FeatureControlManager)

Versions 0-2; version 1 adds the upgrade type and `validate_only`. Version 0 only upgrades: as in Kafka,
`allow_downgrade` has no effect. An update to the present level succeeds and changes nothing; any other is
INVALID_UPDATE_VERSION with Kafka's reason, but for downgrades: Kafka lowers a level where no metadata would
be lost, and here it is fixed. kraft.version, which Kafka knows too, has level 0. Of a feature that is named
twice the last update counts, as in Kafka. The first error is that of the response, which then has no results;
otherwise each update has a result, up to version 1 (KIP-1022).
"""

from typing import Final

from broker.api.a18_api_versions import FEATURES, NEVER_FINALIZED
from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome, Response
from broker.api.requests.pacing import mapped
from broker.api.requests.services import ControlServices
from broker.common.errors import ErrorCode
from broker.common.slices import Slices
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from broker.security.acl.acl import Operation

NO_RESULTS_SINCE: Final = 2
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = UPGRADE_TYPES = (1, 2, 3)
METADATA_VERSION: Final = "metadata.version"


@api(ApiKey.UPDATE_FEATURES, versions=(0, 2), services=ControlServices)
def handle(
    message: UpdateFeaturesRequest, context: RequestContext, services: ControlServices
) -> Slices[Outcome]:
    if not services.security.permits(context, Operation.ALTER):
        return Response(UpdateFeaturesResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    latest: dict[str, FeatureUpdateKey] = {}
    unknown: dict[str, FeatureUpdateKey] = {}
    for update in message.feature_updates:
        known = update.feature in FEATURES or update.feature in NEVER_FINALIZED
        wanted = latest if known else unknown
        # One unknown feature is enough for a refusal.
        if known or not unknown or update.feature in unknown:
            wanted[update.feature] = update
        yield None
    for update in (*latest.values(), *unknown.values()):
        problem = _problem(update, services.node_id)
        if problem:
            why = f"The update failed for all features since the following feature had an error: {problem}"
            return Response(
                UpdateFeaturesResponse(error_code=ErrorCode.INVALID_UPDATE_VERSION, error_message=why)
            )
    if context.api_version >= NO_RESULTS_SINCE:
        return Response(UpdateFeaturesResponse())
    results = yield from mapped(_success, message.feature_updates)
    return Response(UpdateFeaturesResponse(results=results))


def _success(update: FeatureUpdateKey) -> UpdatableFeatureResult:
    return UpdatableFeatureResult(update.feature)


def _problem(update: FeatureUpdateKey, node_id: int) -> str:
    """Return why the update is refused, in Kafka's words; empty if the feature has this level."""
    name, level, how = update.feature, update.max_version_level, update.upgrade_type
    feature = FEATURES.get(name)
    if how not in UPGRADE_TYPES:
        reason = "The controller does not support the given upgrade type."
    elif level < 0:
        reason = "A feature version cannot be less than 0."
    elif feature is None and level > 0:
        reason = f"Local controller {node_id} does not support this feature."
    elif feature is None:
        reason = "" if name in NEVER_FINALIZED else f"Feature {name} not found."
    elif not feature.least <= level <= feature.level:
        reason = f"Local controller {node_id} only supports versions {feature.least}-{feature.level}"
    elif level == feature.level:
        reason = ""
    elif how == UPGRADE:
        reason = (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or "
            "unsafe downgrade."
        )
    elif name == METADATA_VERSION:
        # Each lower level has other metadata than this one.
        return f"Unsupported metadata.version downgrade from {feature.level} to {level}. {_LOSSES[how]}"
    else:
        reason = f"This broker has only version {feature.level}."
    return f"Invalid update version {level} for feature {name}. {reason}" if reason else ""


_LOSSES: Final = {
    SAFE_DOWNGRADE: (
        "Refusing to perform the requested downgrade because it might delete metadata information."
    ),
    UNSAFE_DOWNGRADE: "Unsafe metadata downgrade is not supported in this version.",
}
