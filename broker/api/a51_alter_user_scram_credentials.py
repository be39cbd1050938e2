"""AlterUserScramCredentials: sets and deletes SCRAM credentials of users. (KIP-554)

Version 0. The client salts the password and never sends it in clear text. Each user has one entry; a request
may alter a user once. A login in progress completes with the old credential.
"""

from collections.abc import Awaitable

from broker.api.registry import api
from broker.api.requests.change_limits import applied, entries_of, refused
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome
from broker.api.requests.services import ControlServices
from broker.common.slices import Slices
from broker.controller.commands import AlterUserScramCredentials, ScramDeletion, ScramUpsertion
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from broker.security.acl.acl import Operation


@api(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, versions=(0, 0), services=ControlServices)
def handle(
    message: AlterUserScramCredentialsRequest, context: RequestContext, services: ControlServices
) -> Slices[Outcome | Awaitable[Outcome]]:
    requested: list[ScramCredentialDeletion | ScramCredentialUpsertion] = [
        *message.deletions,
        *message.upsertions,
    ]
    wanted = yield from entries_of(requested, _alteration)
    if wanted is None:
        return (
            yield from refused(
                requested,
                lambda each, error, why: AlterUserScramCredentialsResult(each.name, error, why),
                lambda each: AlterUserScramCredentialsResponse(results=each),
            )
        )
    return applied(
        AlterUserScramCredentials,
        wanted,
        services.security.actor(context, Operation.ALTER),
        services.control,
        lambda each: AlterUserScramCredentialsResult(each.user, each.error, each.message),
        lambda each: AlterUserScramCredentialsResponse(results=each),
    )


def _alteration(
    requested: ScramCredentialDeletion | ScramCredentialUpsertion,
) -> ScramDeletion | ScramUpsertion:
    if isinstance(requested, ScramCredentialDeletion):
        return ScramDeletion(requested.name, requested.mechanism)
    return ScramUpsertion(
        requested.name,
        requested.mechanism,
        requested.iterations,
        bytes(requested.salt),
        bytes(requested.salted_password),
    )
