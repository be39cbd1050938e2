"""The delegation tokens as rows, without their HMACs. Part of `console.Views`.

An HMAC is a password: who may read it asks for it over the Kafka protocol (DescribeDelegationToken).
"""

from collections.abc import Callable, Iterator

import msgspec

from broker.controller.rows.fields import Moment
from broker.metadata.image import DelegationToken, Image


class DelegationTokenRow(msgspec.Struct, frozen=True):
    """A token, also an expired one until it is removed. Principals are texts such as "User:ann".

    It expires at `expires_at_ms` unless it is renewed, and at `max_at_ms` in any case. `renewers` may renew
    it beside the owner. `version` changes when it is renewed or expires earlier.
    """

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_at_ms: Moment
    expires_at_ms: Moment
    max_at_ms: Moment = msgspec.field(name="max_expires_at")
    version: int
    changed_at_ms: Moment
    changed_by: str


class DelegationTokenViews:
    """`enabled` says whether `delegation.token.secret.key` is set; tokens of an earlier run are not shown
    without it, since no client can use them.
    """

    def __init__(self, image: Callable[[], Image], enabled: Callable[[], bool]) -> None:
        self._image = image
        self._enabled = enabled

    @property
    def enabled(self) -> bool:
        return self._enabled()

    def each(self) -> Iterator[DelegationTokenRow]:
        """Yield the tokens in no order, built lazily."""
        if self.enabled:
            for token_id, token in self._image().delegation_tokens.items():
                yield _row(token_id, token)

    def one(self, token_id: str) -> DelegationTokenRow | None:
        """Return the row of a token; None if it does not exist."""
        token = self._image().delegation_tokens.get(token_id) if self.enabled else None
        return None if token is None else _row(token_id, token)


def _row(token_id: str, token: DelegationToken) -> DelegationTokenRow:
    return DelegationTokenRow(
        token_id,
        token.owner,
        token.requester,
        token.renewers,
        token.issued_ms,
        token.expires_ms,
        token.max_ms,
        token.version,
        token.changed_at_ms,
        token.changed_by,
    )
