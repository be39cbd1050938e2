"""The image equals the latest row of each key."""

import pytest

from broker.common.errors import BrokerBug
from broker.metadata.actor import Role
from broker.metadata.changes import (
    Change,
    ChangeKind,
    Delta,
    QuotaChange,
    read_pairs,
    write_number,
    write_pairs,
)
from broker.metadata.image import Image, Stamp, State, Topic, project

ALICE = (("user", "alice"),)
ID = bytes(range(16))


def state_of(*rows: tuple[str, str, str, str | None]) -> State:
    state: State = {}
    for seq, (kind, entity, key, value) in enumerate(rows, 1):
        state.setdefault((kind, entity), {})[key] = Stamp(value, seq, 1_000 + seq, f"actor{seq}")
    return state


def image_of(*rows: tuple[str, str, str, str | None]) -> Image:
    state = state_of(*rows)
    return project(Image(), state, state, len(rows))


def topic(name: str, topic_id: bytes = ID, partitions: int = 1) -> list[tuple[str, str, str, str | None]]:
    return [("topic", name, "id", topic_id.hex()), ("topic", name, "partitions", str(partitions))]


def test_an_empty_log_is_an_empty_image() -> None:
    assert image_of() == Image()


def test_a_topic_is_found_by_name_and_by_id_with_its_settings() -> None:
    image = image_of(*topic("t", partitions=3), ("topic-config", "t", "retention.ms", "5"))
    expected = Topic("t", ID, 3, {"retention.ms": "5"}, image.version)
    assert image.topics == {"t": expected}
    assert image.topics_by_id[ID] is image.topics["t"]


def test_a_deleted_topic_is_gone_by_name_and_by_id() -> None:
    image = image_of(("topic", "t", "id", None), ("topic", "t", "partitions", None))
    assert image.topics == {} == image.topics_by_id


def test_a_topic_made_again_under_another_id_leaves_no_trace_of_the_first() -> None:
    before = image_of(*topic("t"))
    state = state_of(*topic("t", topic_id=bytes(16)))
    after = project(before, state, state, 9)
    assert list(after.topics_by_id) == [bytes(16)]
    assert before.topics_by_id[ID].name == "t"


def test_a_setting_alone_touches_its_topic() -> None:
    state = state_of(*topic("t"), *topic("u", bytes(16)), ("topic-config", "t", "retention.ms", "5"))
    before = project(Image(), state, state, 5)
    state["topic-config", "t"]["retention.ms"] = Stamp(None, 6, 0, "a")
    after = project(before, state, [("topic-config", "t")], 6)
    assert after.topics["t"].configs == {}
    assert after.topics["u"] is before.topics["u"]
    assert before.topics["t"].configs == {"retention.ms": "5"}


def test_an_entitys_version_is_that_of_its_last_change_even_a_removal() -> None:
    entity = write_pairs(ALICE)
    image = image_of(
        ("client-quota", entity, "producer_byte_rate", "1000"),
        ("client-quota", entity, "consumer_byte_rate", None),
    )
    entry = image.quotas[ALICE]
    assert {key: limit.value for key, limit in entry.limits.items()} == {"producer_byte_rate": 1000.0}
    assert (entry.version, entry.changed_at_ms, entry.changed_by) == (2, 1_002, "actor2")
    assert entry.limits["producer_byte_rate"].changed_by == "actor1"


def test_an_entity_without_limits_is_not_there() -> None:
    assert image_of(("client-quota", write_pairs(ALICE), "producer_byte_rate", None)).quotas == {}


def test_a_brokers_own_setting_wins_over_all_brokers() -> None:
    image = image_of(
        ("broker-config", "", "log.retention.ms", "1"),
        ("broker-config", "", "log.segment.bytes", "100"),
        ("broker-config", "7", "log.retention.ms", "2"),
    )
    assert image.dynamic_configs(7) == {"log.retention.ms": "2", "log.segment.bytes": "100"}
    assert image.dynamic_configs(8) == {"log.retention.ms": "1", "log.segment.bytes": "100"}


def test_a_brokers_settings_have_the_version_of_their_last_change_even_a_removal() -> None:
    image = image_of(
        ("cluster", "", "id", "x"),
        ("broker-config", "7", "log.retention.ms", "1"),
        ("broker-config", "", "log.segment.bytes", "100"),
        ("broker-config", "7", "log.retention.ms", None),
    )
    assert [image.broker_config_version(name) for name in ("7", "", "8")] == [4, 3, 3]
    assert Image().broker_config_version("7") == 0


def test_tokens_come_with_their_role() -> None:
    image = image_of(("admin-token", "first", "token", '{"role":"ADMIN","salt":"0a","digest":"0b"}'))
    token = image.tokens["first"]
    assert (token.role, token.salt, token.digest) == (Role.ADMIN, b"\x0a", b"\x0b")
    assert token.expires_at_ms is None
    assert image_of(("admin-token", "first", "token", None)).tokens == {}


def test_a_token_says_when_it_expires_and_of_which_version_it_is() -> None:
    written = '{"role":"VIEWER","salt":"0a","digest":"0b","expires_at_ms":1700000000000}'
    image = image_of(("cluster", "", "id", "x"), ("admin-token", "first", "token", written))
    token = image.tokens["first"]
    assert (token.expires_at_ms, token.version) == (1_700_000_000_000, image.version)


def test_a_kind_without_a_projection_is_a_bug() -> None:
    with pytest.raises(BrokerBug):
        image_of(("nonsense", "", "", "1"))


@pytest.mark.parametrize(
    "pairs",
    [
        (("user", "user with spaces"),),
        (("user", None), ("client-id", "<default>")),
        (("client-id", 'quote" \\ \n é 漢'),),
        (("ip", "10.0.0.1"),),
    ],
)
def test_entities_round_trip_through_text(pairs: tuple[tuple[str, str | None], ...]) -> None:
    assert read_pairs(write_pairs(pairs)) == pairs


def test_the_default_entity_and_a_client_that_calls_itself_default_are_two() -> None:
    assert write_pairs((("client-id", None),)) != write_pairs((("client-id", "<default>"),))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1048576.0, "1048576"),
        (12.3, "12.3"),
        (0.1, "0.1"),
        (9007199254740993.0, "9007199254740992"),
        (1e300, "1e+300"),
    ],
)
def test_numbers_read_back_as_the_same_double(value: float, text: str) -> None:
    assert write_number(value) == text
    assert float(write_number(value)) == value


def test_a_delta_names_what_was_touched() -> None:
    delta = Delta.of(
        [
            Change(ChangeKind.TOPIC, "a", "id", None),
            Change(ChangeKind.TOPIC_CONFIG, "b", "retention.ms", "1"),
            Change(ChangeKind.CLIENT_QUOTA, write_pairs(ALICE), "producer_byte_rate", "1000"),
            Change(ChangeKind.CLIENT_QUOTA, write_pairs(ALICE), "consumer_byte_rate", None),
        ]
    )
    assert delta.topics == {"a", "b"}
    assert delta.quotas == (
        QuotaChange(ALICE, "producer_byte_rate", 1000.0),
        QuotaChange(ALICE, "consumer_byte_rate", None),
    )
    assert not delta.broker_configs
    assert Delta.of([Change(ChangeKind.BROKER_CONFIG, "", "log.retention.ms", "1")]).broker_configs
