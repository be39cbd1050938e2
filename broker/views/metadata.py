"""What the metadata image and its log tell: settings, admin tokens, delegation tokens, SCRAM credentials,
alert rules, and who changed what. Part of `console.Views`.
"""

from collections.abc import Callable, Iterator

import msgspec

from broker.common.errors import ApiError
from broker.common.slices import Steps
from broker.config.table import GATEWAY_KEYS
from broker.controller.alerts import shown_url
from broker.controller.commands import ConfigResource
from broker.controller.control import Committer, Control
from broker.controller.describe import describe_in_steps
from broker.controller.rows.alerts import AlertRuleRow, DestinationRow, SilenceRow
from broker.controller.rows.broker import AuditEntry, ConfigRow, ScramRow, TokenRow
from broker.controller.rows.fields import Moment
from broker.controller.tokens import Credentials, identify
from broker.controller.undo import inverse_of
from broker.metadata.alerts import AlertDestination
from broker.metadata.changes import QUOTA_KINDS, AuditFilter, AuditRow, ChangeKind, read_pairs
from broker.metadata.image import AdminToken, DelegationToken, Image, ScramCredential
from broker.metadata.sealing import is_secret

__all__ = ["AuditFilter", "MetadataViews"]


class MetadataViews:
    def __init__(self, control: Control, committer: Committer) -> None:
        self._control = control
        self._committer = committer

    @property
    def version(self) -> int:
        """The version of the metadata image; it changes with every change by an operator."""
        return self._control.image.version

    def describe_configs(self, resource: ConfigResource) -> Steps[list[ConfigRow]]:
        """Return every setting of a topic or of the broker with its source, sorted by name.

        Raises ApiError as DescribeConfigs does. The empty broker name means the settings of all brokers.
        """
        return describe_in_steps(resource, self._control.image, self._control.configuration)

    def has_effect(self, key: str) -> bool:
        """Return whether this server uses a broker's setting: a broker does not use those of gateways."""
        return key not in GATEWAY_KEYS

    def describe_node(self, node_id: int) -> list[ConfigRow]:
        """Return the settings of a node of the upstream cluster, as last read; none at a broker."""
        return []

    def broker_config_version(self, name: str) -> int:
        """Return the version of the dynamic settings of the broker with this node id, "" for all brokers."""
        return self._control.image.broker_config_version(name)

    def tokens(self) -> list[TokenRow]:
        return [_token_row(token) for _, token in sorted(self._control.image.tokens.items())]

    def identify(self, secret: str) -> TokenRow | None:
        """Return the token with this secret; takes some microseconds per existing token."""
        token = identify(secret, self._control.image)
        return None if token is None else _token_row(token)

    def credentials_of(self, name: str) -> Credentials:
        """Return the credentials of a name; never fails for unknown names."""
        token = self._control.image.tokens.get(name)
        return Credentials(None if token is None else _token_row(token), token)

    def scram_users(self) -> Iterator[ScramRow]:
        """Yield every user's credentials, by user and mechanism."""
        for user, credentials in sorted(self._control.image.scram.items()):
            for mechanism in credentials:
                yield _scram_row(user, mechanism, credentials[mechanism])

    def scram_user(self, user: str, mechanism: str) -> ScramRow | None:
        known = self._control.image.scram.get(user, {}).get(mechanism)
        return None if known is None else _scram_row(user, mechanism, known)

    def alert_rules(self) -> Iterator[AlertRuleRow]:
        """Yield the alert rules by name, without what they evaluate to."""
        for name, each in sorted(self._control.image.alert_rules.items()):
            yield AlertRuleRow(name, each.rule, each.version, each.changed_at_ms, each.changed_by)

    def alert_silences(self) -> Iterator[SilenceRow]:
        """Yield the silences by name, also those that ended."""
        for name, each in sorted(self._control.image.alert_silences.items()):
            silence = each.silence
            stamp = (each.version, each.changed_at_ms, each.changed_by)
            yield SilenceRow(name, silence.rule, silence.match, silence.ends_at_ms, *stamp)

    def alert_destinations(self) -> Iterator[DestinationRow]:
        """Yield the destinations of notifications by name, without their secrets."""
        rules = self._control.image.alert_rules
        for name, each in sorted(self._control.image.alert_destinations.items()):
            known = each.destination
            yield DestinationRow(
                name,
                "" if known is None else known.kind.value,
                "" if known is None else shown_url(known.url),
                () if known is None else tuple(known.headers),
                tuple(sorted(rule for rule in rules if name in rules[rule].rule.destinations)),
                each.version,
                each.changed_at_ms,
                each.changed_by,
                *(() if known is None else destination_details(known)),
            )

    async def audit(self, query: AuditFilter) -> Iterator[AuditEntry]:
        """Return rows, the newest first, built lazily. Values of secrets read "(secret)"."""
        rows = await self._committer.history(query)
        image = self._control.image
        wall_ms = self._control.wall_ms()
        return (_entry(row, image, wall_ms) for row in rows)


def destination_details(known: AlertDestination) -> tuple[bool, str, str, tuple[str, ...]]:
    """Return the last fields of a `DestinationRow`."""
    return bool(known.secret), known.username, known.sender, known.recipients


def _token_row(token: AdminToken) -> TokenRow:
    role, at_ms, by = token.role.name.lower(), token.changed_at_ms, token.changed_by
    return TokenRow(token.name, role, at_ms, by, token.version, token.expires_at_ms, token.password_at_ms)


def _scram_row(user: str, mechanism: str, known: ScramCredential) -> ScramRow:
    return ScramRow(user, mechanism, known.iterations, known.version, known.changed_at_ms, known.changed_by)


def _entry(row: AuditRow, image: Image, wall_ms: int) -> AuditEntry:
    final = None
    try:
        inverse_of(row, (), image, wall_ms)
    except ApiError as refusal:
        final = refusal.message
    shown = msgspec.structs.asdict(row)
    if row.kind in (ChangeKind.ADMIN_TOKEN, ChangeKind.USER_SCRAM) or is_secret(row.kind, row.key):
        shown |= {"old": row.old and "(secret)", "new": row.new and "(secret)"}
    quota = read_pairs(row.entity) if row.kind in QUOTA_KINDS else None
    return AuditEntry(**shown, quota=quota, final=final)


class DelegationTokenRow(msgspec.Struct, frozen=True):
    """A token without its HMAC, also an expired one until it is removed. An HMAC is a password: who may read
    it asks for it over the Kafka protocol (DescribeDelegationToken). Principals are texts such as "User:ann".

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
    """`enabled` tells whether `delegation.token.secret.key` is set; tokens of an earlier run are not shown
    without it, since nobody can use them.
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
