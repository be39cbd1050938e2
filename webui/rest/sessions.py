"""DELETE /sessions: log out all browsers of the requesting token or, for administrators, of all tokens.

A session ends at once, its live streams with the next broadcast. Programs that send their token with each
request have no session; renewing the token ends their access. Sessions are in memory and not in the audit
trail, so the log records the actor.
"""

import logging
from typing import Final

from broker.common.errors import ErrorCode
from broker.controller.commands import Role
from webui.problem import Problem
from webui.rest.routing import Call, Query, Reply, ResponseSpec, Route
from webui.schema import COUNT, Record, Text

ENDED: Final = Record({"ended": COUNT})

logger = logging.getLogger("webui.rest.access")  # the name that these log lines have had from the start


async def end_sessions(call: Call) -> Reply:
    all_tokens = call.query["of"] == "all"
    if all_tokens and call.actor.role < Role.ADMIN:
        raise Problem.of(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            "Ending the sessions of other tokens requires the role admin.",
        )
    ended = call.console.authenticator.sign_out_everywhere(None if all_tokens else call.actor.name)
    logger.info(
        "console sessions were ended",
        extra={"by": call.actor.name, "address": call.actor.address, "of": call.query["of"], "ended": ended},
    )
    return Reply({"ended": ended})


ROUTES: Final = (
    Route(
        "DELETE /api/v1/sessions",
        "endSessions",
        "Logs out browsers: all sessions of the requesting token, including the requesting one, or with "
        "`of=all` the sessions of all tokens, which requires the role admin. Tokens stay valid.",
        end_sessions,
        {200: ResponseSpec("The number of ended sessions", ENDED)},
        query=(Query("of", Text(choices=("own", "all")), "Whose sessions.", default="own"),),
    ),
)
