"""DescribeUserScramCredentials: nobody has any, so that kafka-configs can describe users with quotas.

Version 0. Without names, or with none, all users that have credentials are asked for; a user who has none is
an error of its own, as is one who is named twice. Left out: SCRAM itself; logins are by PLAIN.
"""

from collections import Counter

from broker.api.broker import Broker
from broker.api.context import RequestContext
from broker.api.outcome import Answered, Outcome
from broker.api.registry import api
from broker.errors import ErrorCode
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


@api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, versions=(0, 0))
def handle(message: DescribeUserScramCredentialsRequest, context: RequestContext, broker: Broker) -> Outcome:
    asked = Counter(user.name for user in message.users or ())
    results = [_result(name, times) for name, times in asked.items()]
    return Answered(DescribeUserScramCredentialsResponse(results=results), cacheable=True)


def _result(name: str, times: int) -> DescribeUserScramCredentialsResult:
    if times > 1:
        return DescribeUserScramCredentialsResult(
            name,
            ErrorCode.DUPLICATE_RESOURCE,
            f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}",
        )
    return DescribeUserScramCredentialsResult(
        name,
        ErrorCode.RESOURCE_NOT_FOUND,
        f"Attempt to describe a user credential that does not exist: {name}",
    )
