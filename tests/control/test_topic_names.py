"""Topic names as Kafka's Topic.validate accepts them."""

import pytest

from broker.control.topic_names import collision_key, validate_topic_name
from broker.errors import ApiError, ErrorCode


@pytest.mark.parametrize(
    "name", ["a", "A-z_0.9", "...", "x" * 248, "x" * 249, "__consumer_offsets", "-", "_"]
)
def test_legal_names_pass(name: str) -> None:
    validate_topic_name(name)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "the empty string is not allowed"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        ("x" * 250, "longer than the max allowed length 249"),
        ("a b", "contains one or more characters other than"),
        ("a/b", "contains one or more characters other than"),
        ("../etc", "contains one or more characters other than"),
        ("é", "contains one or more characters other than"),
        ("a\n", "contains one or more characters other than"),
        ("a\0", "contains one or more characters other than"),
    ],
)
def test_other_names_are_refused_and_the_message_holds_no_control_characters(name: str, words: str) -> None:
    with pytest.raises(ApiError, match=words) as caught:
        validate_topic_name(name)
    assert caught.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert caught.value.message is not None and caught.value.message.isprintable()


def test_dots_and_underscores_collide() -> None:
    assert collision_key("a.b_c") == collision_key("a_b.c") != collision_key("a-b-c")
