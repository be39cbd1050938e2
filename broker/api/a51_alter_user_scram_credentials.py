"""AlterUserScramCredentials: gives users a SCRAM password, and takes it away. (KIP-554)

Version 0. The client salts the password, so it never arrives here. One entry for each user; a user can be
altered once in a request. A login that is under way ends as it began.
"""

from broker.api.broker import Broker
from broker.api.context import RequestContext
from broker.api.outcome import Answered, Outcome
from broker.api.registry import api
from broker.api.wire_actor import wire_actor
from broker.control.commands import AlterUserScramCredentials, ScramDeletion, ScramUpsertion
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)


@api(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, versions=(0, 0))
async def handle(
    message: AlterUserScramCredentialsRequest, context: RequestContext, broker: Broker
) -> Outcome:
    command = AlterUserScramCredentials(
        (
            *(ScramDeletion(each.name, each.mechanism) for each in message.deletions),
            *(
                ScramUpsertion(
                    each.name, each.mechanism, each.iterations, bytes(each.salt), bytes(each.salted_password)
                )
                for each in message.upsertions
            ),
        )
    )
    outcomes = await broker.control.apply(command, wire_actor(context, broker))
    return Answered(
        AlterUserScramCredentialsResponse(
            results=[
                AlterUserScramCredentialsResult(each.user, each.error, each.message) for each in outcomes
            ]
        )
    )
