"""One SASL login in progress, whatever its mechanism.

The SaslHandshake handler begins it, SaslAuthenticate passes it the client's messages. Each mechanism's module
has its own: `plain`, `scram`, `oauthbearer`.
"""

from typing import Protocol

from broker.common.errors import ApiError, ErrorCode


class SaslLogin(Protocol):
    """`mechanism` is the SASL name.

    `name` is the authenticated user, None until the login has succeeded. `ends_wall_ms` is when its
    credential expires, in ms since the epoch; None if it does not. `refusal` is why the login fails, for the
    operator's log; "" if it does not fail, or if the mechanism must not reveal it. It shows nothing of the
    client's messages. `by_token`: the credential is a delegation token.
    """

    @property
    def mechanism(self) -> str: ...
    @property
    def name(self) -> str | None: ...
    @property
    def ends_wall_ms(self) -> int | None: ...
    @property
    def refusal(self) -> str: ...
    @property
    def by_token(self) -> bool: ...

    def step(self, message: bytes | bytearray | memoryview, wall_ms: int) -> bytes:
        """Return the response to the client's next message.

        Raises ApiError SASL_AUTHENTICATION_FAILED, after which the login is over.
        """


def invalid_credentials(mechanism: str) -> ApiError:
    """Return the error of a login that must not reveal to the client why it failed."""
    message = (
        "Authentication failed during authentication due to invalid credentials with SASL mechanism "
        f"{mechanism}"
    )
    return ApiError(ErrorCode.SASL_AUTHENTICATION_FAILED, message)
