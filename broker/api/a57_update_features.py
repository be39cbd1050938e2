"""UpdateFeatures: changes the finalized level of features, which is fixed here. (KIP-584)

Versions 0-2; version 1 adds the upgrade type and `validate_only`. An update to the present level succeeds and
changes nothing; another level, or an unknown feature, is INVALID_UPDATE_VERSION, and a feature that the
request names twice INVALID_REQUEST. The first error is that of the response, which then has no results;
otherwise each feature has a result, up to version 1 (KIP-1022).
"""

from collections.abc import Awaitable
from typing import Final

from broker.api.context import RequestContext
from broker.api.features import FEATURES
from broker.api.outcome import Outcome, Response, in_slices
from broker.api.pacing import Distinct, Pace
from broker.api.registry import api
from broker.api.services import ControlServices
from broker.authorization.acl import Operation
from broker.errors import ErrorCode
from broker.metadata.actor import Role
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from broker.records.slices import Slices

NO_RESULTS_SINCE: Final = 2


@api(ApiKey.UPDATE_FEATURES, versions=(0, 2), services=ControlServices)
def handle(
    message: UpdateFeaturesRequest, context: RequestContext, services: ControlServices
) -> Outcome | Awaitable[Outcome]:
    if services.security.actor(context, Operation.ALTER).role < Role.ADMIN:
        return Response(UpdateFeaturesResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    return in_slices(_respond(message, context))


def _respond(message: UpdateFeaturesRequest, context: RequestContext) -> Slices[Outcome]:
    pace, named = Pace(), Distinct[str]()
    results = []
    for update in message.feature_updates:
        result = _result(update) if named.add(update.feature) else _repeated(update)
        if result.error_code:
            message_ = (
                "The update failed for all features since the following feature had an error: "
                f"{result.error_message}"
            )
            yield from named.release()
            return Response(UpdateFeaturesResponse(error_code=result.error_code, error_message=message_))
        results.append(result)
        if pace.spent():
            yield None
    yield from named.release()
    if context.api_version >= NO_RESULTS_SINCE:
        results = []
    return Response(UpdateFeaturesResponse(results=results))


def _result(update: FeatureUpdateKey) -> UpdatableFeatureResult:
    feature = FEATURES.get(update.feature)
    wanted = f"Invalid update version {update.max_version_level} for feature {update.feature}."
    if feature is None:
        reason = "The broker does not support this feature."
    elif update.max_version_level != feature.level:
        reason = f"The broker only supports version {feature.level}."
    else:
        return UpdatableFeatureResult(update.feature)
    return UpdatableFeatureResult(update.feature, ErrorCode.INVALID_UPDATE_VERSION, f"{wanted} {reason}")


def _repeated(update: FeatureUpdateKey) -> UpdatableFeatureResult:
    message = f"The feature {update.feature} is named more than once."
    return UpdatableFeatureResult(update.feature, ErrorCode.INVALID_REQUEST, message)
