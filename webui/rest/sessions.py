"""DELETE /sessions: signs browsers out everywhere, those of one's own token or, for administrators, all.

A session ends at once, and its live streams with the next beat. A program that sends its token with each
request has no session; a new secret for the token ends its access (webui.rest.tokens). Sessions are in memory
and in no trail, so the log says who ended them.
"""

import logging
from typing import Final

from broker.control.commands import Role
from broker.errors import ErrorCode
from webui.rest.answers import COUNT
from webui.rest.problem import Problem
from webui.rest.routing import Answer, Call, Query, Reply, Route
from webui.rest.schema import Record, Text

logger = logging.getLogger(__name__)

ENDED: Final = Record({"ended": COUNT})


async def end_sessions(call: Call) -> Reply:
    everybody = call.query["of"] == "all"
    if everybody and call.actor.role < Role.ADMIN:
        raise Problem.of(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            "Ending the sessions of other tokens needs the role admin.",
        )
    ended = call.console.authenticator.sign_out_everywhere(None if everybody else call.actor.name)
    logger.info(
        "console sessions were ended",
        extra={"by": call.actor.name, "address": call.actor.address, "of": call.query["of"], "ended": ended},
    )
    return Reply({"ended": ended})


ROUTES: Final = (
    Route(
        "DELETE",
        "/api/v1/sessions",
        "endSessions",
        "Signs browsers out: every session of the token that asks, the one that asks included, or with "
        "`of=all` the sessions of all tokens, which needs the role admin. Tokens stay good.",
        end_sessions,
        {200: Answer("How many sessions there were", ENDED)},
        query=(Query("of", Text(choices=("own", "all")), "Whose sessions.", default="own"),),
    ),
)
