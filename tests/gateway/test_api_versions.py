"""Clients see what both the upstream broker and the gateway know, and nothing of the cluster's inside."""

import struct

import pytest

from broker.api.security.client_security import ACCESS
from broker.common.errors import ErrorCode, ProtocolViolation
from broker.gateway.api_versions import (
    INTERNAL,
    MAX_FETCH,
    READ,
    forwardable,
    intersect,
    is_allowed,
    judged,
)
from broker.metadata.actor import Role
from broker.protocol.api_key import NAMES, ApiKey
from broker.protocol.codec import known_versions
from broker.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from tests.gateway.frames import CORRELATION_ID, frame_of, read
from tests.support.random_messages import RandomMessages

TELEMETRY = {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: (0, 0), ApiKey.PUSH_TELEMETRY: (0, 0)}
NEWER = 95
"""The first key that Kafka had not assigned when the codec's schemas were derived."""


def offered(upstream, *, local=None, version=3, versions_of=forwardable):
    """What the gateway makes of the upstream's versions: key -> (first, last)."""
    keys = [ApiVersion(key, first, last) for key, (first, last) in upstream.items()]
    frame = frame_of(ApiVersionsResponse(api_keys=keys), version)
    changed = intersect(frame, version, local or {}, versions_of=versions_of)
    message = read(changed, ApiKey.API_VERSIONS, version)
    return {each.api_key: (each.min_version, each.max_version) for each in message.api_keys}


@pytest.mark.parametrize("version", range(5))
def test_an_api_whose_messages_are_read_is_offered_up_to_the_codecs_version(version):
    for key in READ - {ApiKey.SASL_HANDSHAKE, ApiKey.PRODUCE}:
        first, last = known_versions(key)
        assert offered({key: (first, last - 1)}, version=version).get(key) == (
            (first, last - 1) if last > first else None
        )
        assert offered({key: (first, last)}, version=version) == {key: (first, last)}
        assert offered({key: (first, last + 1)}, version=version) == {key: (first, last)}
        assert offered({key: (last, last + 1)}, version=version) == {key: (last, last)}
        assert offered({key: (last + 1, last + 1)}, version=version) == {}


@pytest.mark.parametrize(("last", "expected"), [(14, 14), (15, 15), (16, 15), (18, 15)])
def test_fetch_is_offered_up_to_15(last, expected):
    assert offered({ApiKey.FETCH: (4, last)}) == {ApiKey.FETCH: (4, expected)}
    assert MAX_FETCH == 15


@pytest.mark.parametrize(("key", "last"), [(ApiKey.PRODUCE, 13), (ApiKey.FETCH, 15)])
@pytest.mark.parametrize("versions_of", [forwardable, judged])
def test_produce_and_fetch_are_offered_from_0_where_upstream_does_so(key, last, versions_of):
    last -= key == ApiKey.FETCH and versions_of is judged
    for first in (0, 3, 4):
        assert offered({key: (first, last + 1)}, versions_of=versions_of) == {key: (first, last)}
    assert offered({key: (0, 2)}, versions_of=versions_of) == {key: (0, 2)}
    allowed = [is_allowed(key, version, versions_of) for version in (-1, 0, last, last + 1)]
    assert allowed == [False, True, True, False]


def test_first_versions_are_judged_where_no_role_is_needed():
    """Their messages are older than the codec."""
    free = {key for key, access in ACCESS.items() if access.role == Role.VIEWER} - READ - INTERNAL
    older = {key for key in ACCESS if known_versions(key)[0] and is_allowed(key, 0, judged)}
    assert older == {key for key in free | {ApiKey.PRODUCE} if known_versions(key)[0]}
    assert {ApiKey.LIST_OFFSETS, ApiKey.OFFSET_FETCH, ApiKey.PRODUCE, ApiKey.FETCH} <= older
    assert not is_allowed(ApiKey.ALTER_REPLICA_LOG_DIRS, 0, judged)
    assert is_allowed(ApiKey.ALTER_REPLICA_LOG_DIRS, 0)


def test_sasl_handshake_is_offered_in_version_1_only():
    assert offered({ApiKey.SASL_HANDSHAKE: (0, 1)}) == {ApiKey.SASL_HANDSHAKE: (1, 1)}
    assert offered({ApiKey.SASL_HANDSHAKE: (0, 0)}) == {}


@pytest.mark.parametrize("key", sorted(INTERNAL))
def test_an_api_of_the_cluster_itself_is_not_offered(key):
    assert offered({key: (0, 5), ApiKey.HEARTBEAT: (0, 4)}) == {ApiKey.HEARTBEAT: (0, 4)}
    assert not is_allowed(key, 0)
    assert forwardable(key) is None


@pytest.mark.parametrize("key", [ApiKey.HEARTBEAT, ApiKey.END_TXN, ApiKey.DESCRIBE_ACLS, NEWER, 32_767])
def test_any_other_api_is_offered_as_upstream_has_it(key):
    assert offered({key: (2, 900)}) == {key: (2, 900)}
    assert is_allowed(key, 0) and is_allowed(key, 900)


@pytest.mark.parametrize("api_key", sorted(NAMES))
def test_offered_versions_are_allowed(api_key):
    for first, last in ((0, 0), (0, 100), (3, 5), (12, 12)):
        for key, (lowest, highest) in offered({api_key: (first, last)}).items():
            assert all(is_allowed(key, version) for version in range(lowest, highest + 1))


def test_the_gateways_own_versions_win_over_upstreams_in_the_order_of_keys():
    upstream = {72: (0, 3), 3: (0, 13), 0: (3, 13), 95: (0, 1)}
    assert list(offered(upstream, local=TELEMETRY).items()) == [
        (0, (3, 13)),
        (3, (0, 13)),
        (71, (0, 0)),
        (72, (0, 0)),
        (95, (0, 1)),
    ]


@pytest.mark.parametrize("version", [3, 4])
def test_features_and_the_rest_of_the_response_stay(version):
    message = ApiVersionsResponse(
        api_keys=[ApiVersion(ApiKey.FETCH, 4, 18)],
        throttle_time_ms=40,
        supported_features=[SupportedFeatureKey("metadata.version", 7, 27)],
        finalized_features_epoch=0,
        finalized_features=[FinalizedFeatureKey("metadata.version", 27, 27)],
        zk_migration_ready=True,
    )
    for ours, expected in ((39, 40), (41, 41)):
        made = read(intersect(frame_of(message, version), version, {}, ours), ApiKey.API_VERSIONS, version)
        message.api_keys = [ApiVersion(ApiKey.FETCH, 4, 15)]
        message.throttle_time_ms = expected
        assert made == message
        message.throttle_time_ms = 40


@pytest.mark.parametrize("version", [0, 1, 3, 4, 5, 900])
def test_an_unsupported_version_comes_in_the_layout_of_version_0(version):
    message = ApiVersionsResponse(ErrorCode.UNSUPPORTED_VERSION, [ApiVersion(ApiKey.API_VERSIONS, 0, 7)])
    made = read(intersect(frame_of(message, 0), version, TELEMETRY), ApiKey.API_VERSIONS, 0)
    assert made.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert made.api_keys == [ApiVersion(ApiKey.API_VERSIONS, 0, 5)]


def test_a_response_with_another_error_gets_no_apis():
    message = ApiVersionsResponse(ErrorCode.INVALID_REQUEST)
    made = read(intersect(frame_of(message, 3), 3, TELEMETRY), ApiKey.API_VERSIONS, 3)
    assert made == message


@pytest.mark.parametrize("version", range(6))
def test_a_truncated_response_is_a_violation_at_every_byte(version):
    messages = RandomMessages(seed=version)
    for _ in range(20):
        message = messages.response(ApiKey.API_VERSIONS, version)
        message.error_code = 0
        frame = frame_of(message, version)
        intersect(frame, version, TELEMETRY)
        for size in range(len(frame)):
            with pytest.raises(ProtocolViolation):
                intersect(frame[:size], version, TELEMETRY)


@pytest.mark.parametrize("version", range(5))
def test_a_damaged_response_is_a_violation_or_offers_what_is_allowed(version):
    messages = RandomMessages(seed=version)
    for _ in range(300):
        frame = messages.flipped(frame_of(messages.response(ApiKey.API_VERSIONS, version), version))
        try:
            response = intersect(frame, version, {})
        except ProtocolViolation:
            continue
        refused = response[8:10] == struct.pack(">h", ErrorCode.UNSUPPORTED_VERSION)
        correlated = response[:4] + struct.pack(">i", CORRELATION_ID) + response[8:]
        for each in read(correlated, ApiKey.API_VERSIONS, 0 if refused else version).api_keys:
            assert is_allowed(each.api_key, each.max_version)


# Where the gateway logs clients in


@pytest.mark.parametrize("key", [*INTERNAL, NEWER, 32_767])
def test_an_api_that_the_gateway_cannot_judge_is_closed(key):
    assert judged(key) is None
    assert not is_allowed(key, 0, judged)
    upstream = {key: (0, 5), ApiKey.HEARTBEAT: (0, 4)}
    assert offered(upstream, versions_of=judged) == {ApiKey.HEARTBEAT: (0, 4)}


@pytest.mark.parametrize("key", sorted(ACCESS.keys() - INTERNAL))
def test_a_version_that_the_gateway_cannot_read_is_closed(key):
    last = min(known_versions(key)[1], (forwardable(key) or (0, 0))[1])
    last = min(last, 14) if key == ApiKey.FETCH else last
    assert [is_allowed(key, version, judged) for version in (last, last + 1)] == [True, False]


@pytest.mark.parametrize(("last", "expected"), [(13, 13), (14, 14), (15, 14), (18, 14)])
def test_fetch_is_offered_up_to_14_where_replicas_are_refused(last, expected):
    assert offered({ApiKey.FETCH: (4, last)}, versions_of=judged) == {ApiKey.FETCH: (4, expected)}
