"""What a heartbeat may state: bad requests, limits, assignors."""

import pytest

from broker.common.errors import ConfigError, ErrorCode
from broker.config.load import load
from broker.config.sections.groups import ConsumerGroupConfig
from tests.coordinator.group.consumer.consumers import Consumer, Consumers, settle

JOIN = {"topics": ("t",), "rebalance_timeout_ms": 1, "owned": {}}

INVALID = [
    ("", 1, {}, "MemberId can't be empty."),
    ("", -1, {}, "MemberId can't be empty."),
    ("", 0, JOIN, "MemberId can't be empty."),
    (" ", 0, JOIN, "MemberId can't be empty."),
    ("a", 0, JOIN | {"instance_id": ""}, "InstanceId can't be empty."),
    ("a", 0, JOIN | {"rack_id": ""}, "RackId can't be empty."),
    ("a", 0, JOIN | {"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
    ("a", 0, JOIN | {"owned": None}, "TopicPartitions must be empty when (re-)joining."),
    ("a", 0, JOIN | {"owned": {"t": {0}}}, "TopicPartitions must be empty when (re-)joining."),
    (
        "a",
        0,
        JOIN | {"topics": None},
        "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
    ),
    ("a", -2, {}, "InstanceId can't be null."),
    ("a", -3, {}, "MemberEpoch is invalid."),
]


@pytest.mark.parametrize(("member_id", "epoch", "fields", "message"), INVALID)
def test_an_invalid_request_is_refused(talk, member_id, epoch, fields, message):
    reply = talk.beat(member_id, epoch, **fields)
    assert (reply.error, reply.message) == (ErrorCode.INVALID_REQUEST, message)
    assert talk.listed() == []
    assert talk.records == []


def test_an_empty_group_id_is_refused(talk):
    assert talk.enter("a", group="").message == "GroupId can't be empty."


def test_version_0_leaves_the_member_id_to_the_broker(talk):
    reply = talk.enter("", requires_member_id=False)
    assert (reply.error, reply.member_id, reply.epoch) == (ErrorCode.NONE, "1", 2)
    assert talk.beat("", 2, requires_member_id=False).error is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(("members", "error"), [(2, ErrorCode.NONE), (3, ErrorCode.GROUP_MAX_SIZE_REACHED)])
def test_the_maximum_size_of_a_group(members, error):
    talk = Consumers(consumer=ConsumerGroupConfig(max_size=2))
    replies = [talk.enter(f"m{number}") for number in range(members)]
    assert replies[-1].error is error
    assert len(talk.group().members) == 2
    # Members of a full group go on.
    assert talk.beat("m0", 2).error is ErrorCode.NONE


def test_an_instance_takes_its_own_place_in_a_full_group():
    talk = Consumers(consumer=ConsumerGroupConfig(max_size=1))
    talk.enter("a", instance_id="i")
    talk.beat("a", -2, instance_id="i")
    assert talk.enter("b", instance_id="i").error is ErrorCode.NONE
    assert talk.enter("c", instance_id="j").error is ErrorCode.GROUP_MAX_SIZE_REACHED


@pytest.mark.parametrize(("length", "error"), [(99, 0), (100, 0), (101, 81)])
def test_the_maximum_bytes_of_a_group(length, error):
    # The id, the client's id and address, and the topic have 1 + 6 + 9 + 1 bytes.
    talk = Consumers(max_group_bytes=117)
    assert talk.enter("a", rack_id="r" * length).error == error


def test_a_full_group_accepts_what_makes_it_smaller():
    talk = Consumers(max_group_bytes=117)
    talk.enter("a", rack_id="r" * 100)
    assert talk.beat("a", 2, rack_id="r").error is ErrorCode.NONE
    assert talk.beat("a", 2, rack_id="r" * 101).error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_an_unknown_assignor_is_refused_with_the_known_ones(talk):
    reply = talk.enter("a", assignor="sticky")
    assert reply.error is ErrorCode.UNSUPPORTED_ASSIGNOR
    assert reply.message is not None and "uniform, range" in reply.message


def test_the_configuration_limits_the_assignors_and_its_first_is_the_default():
    talk = Consumers(consumer=ConsumerGroupConfig(assignors=("range",)))
    assert talk.enter("a", assignor="uniform").error is ErrorCode.UNSUPPORTED_ASSIGNOR
    talk.enter("a")
    assert talk.described().assignor == "range"


def test_the_assignor_that_most_members_name_is_used(talk):
    talk.enter("a", assignor="range")
    assert talk.described().assignor == "range"
    for name in "bcd":
        talk.enter(name, assignor="uniform")
    assert talk.described().assignor == "uniform"


def test_a_member_without_topics_is_in_the_group(talk):
    reply = talk.enter("a", ())
    assert (reply.epoch, reply.assignment, talk.described().state) == (1, {}, "Stable")
    # The first epoch is that of the group without subscriptions; the first subscription begins the second.
    assert talk.beat("a", 1, topics=("t",)).epoch == 2


def test_the_rack_is_stored_and_does_not_matter(talk):
    talk.enter("a", rack_id="r1")
    assert talk.described().members[0].rack_id == "r1"
    talk.beat("a", 2, rack_id="r2")
    assert (talk.described().members[0].rack_id, talk.group().epoch) == ("r2", 2)


def test_groups_are_listed_by_type_and_state(talk):
    talk.enter("a")
    talk.join(group="classic")
    talk.commit(group="simple")

    def listed(states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> list[tuple[str, str, str, str]]:
        found = talk.listed(states, types)
        return [(each.group_id, each.protocol_type, each.state, each.group_type) for each in found]

    assert listed(types=("Consumer",)) == [("g", "consumer", "Stable", "consumer")]
    assert [each[0] for each in listed(types=("classic",))] == ["classic", "simple"]
    assert listed(states=("stable",)) == [("g", "consumer", "Stable", "consumer")]
    assert listed(types=("share",)) == []
    talk.beat("a", -1)
    assert [each[0] for each in listed(states=("empty",), types=("consumer",))] == ["g"]


def test_describe_groups_does_not_know_a_consumer_group(talk):
    talk.enter("a")
    described = talk.coordinator.classic.described("g", missing_is_error=True)
    assert (described.error, described.message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Group g is not a classic group.",
    )
    talk.join(group="classic")
    assert talk.described("classic").message == "Group classic is not a consumer group."
    assert talk.described("none").message == "Group none not found."


def test_a_consumer_group_is_deleted_when_it_is_empty(talk):
    talk.enter("a")
    talk.commit("a", 2)
    assert talk.delete("g") == [ErrorCode.NON_EMPTY_GROUP]
    talk.beat("a", -1)
    assert talk.delete("g") == [ErrorCode.NONE]
    assert talk.listed() == []
    assert talk.reborn().listed() == []


def test_a_new_group_may_take_the_name_of_a_deleted_one(talk):
    a = Consumer(talk, "a")
    a.enter()
    a.leave()
    talk.delete("g")
    a.enter()
    settle(a)
    assert (talk.group().epoch, a.owned) == (2, {"t": {0, 1, 2, 3}})


@pytest.mark.parametrize(
    "setting",
    [
        "group.consumer.session.timeout.ms=44999",
        "group.consumer.session.timeout.ms=60001",
        "group.consumer.heartbeat.interval.ms=4999",
        "group.consumer.heartbeat.interval.ms=15001",
        "group.consumer.min.session.timeout.ms=60001",
        "group.consumer.max.heartbeat.interval.ms=4999",
        "group.consumer.assignors=uniform,sticky",
        "group.consumer.assignors=",
        "group.consumer.migration.policy=sometimes",
        "group.consumer.regex.refresh.interval.ms=9999",
        "group.consumer.max.size=0",
    ],
)
def test_a_setting_out_of_range_is_refused(setting):
    with pytest.raises(ConfigError) as refused:
        load(None, [setting], {})
    assert "group.consumer" in str(refused.value)


@pytest.mark.parametrize(
    "settings",
    [
        ["group.consumer.session.timeout.ms=45000"],
        ["group.consumer.session.timeout.ms=60000"],
        ["group.consumer.heartbeat.interval.ms=15000"],
        ["group.consumer.min.heartbeat.interval.ms=1", "group.consumer.heartbeat.interval.ms=1"],
        ["group.consumer.assignors=range"],
        ["group.consumer.regex.refresh.interval.ms=10000"],
    ],
)
def test_a_setting_at_its_limit_is_accepted(settings):
    load(None, settings, {})


def test_the_heartbeat_interval_is_below_the_session_timeout():
    low = ["group.consumer.min.session.timeout.ms=100", "group.consumer.session.timeout.ms=5000"]
    with pytest.raises(ConfigError, match=r"less than group\.consumer\.session\.timeout\.ms"):
        load(None, low, {})
    load(None, [low[0], "group.consumer.session.timeout.ms=5001"], {})
