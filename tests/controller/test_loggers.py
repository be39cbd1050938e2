"""The levels of the broker's loggers: KIP-412, with the messages of Kafka's RuntimeLoggerManager."""

import logging
from collections.abc import Iterator

import pytest

from broker.common.errors import ApiError, ErrorCode
from broker.controller.commands import (
    ConfigAlteration,
    ConfigOp,
    ConfigResource,
    IncrementalAlterConfigs,
    OpType,
    ResourceOutcome,
    ResourceType,
)
from broker.controller.configs import plan_alter_configs
from broker.controller.control import Control
from broker.controller.loggers import LEVELS, levels
from broker.metadata.actor import Role
from tests.controller.world import StoreCommitter, World, actor

INNER = "weir_tests.part.inner"
PART = "weir_tests.part"


@pytest.fixture(autouse=True)
def _loggers() -> Iterator[None]:
    """Return two new loggers; the outer one exists only as a package. No other level is touched."""
    logging.getLogger(INNER).setLevel(logging.NOTSET)
    yield
    for name in (INNER, PART):
        logging.root.manager.loggerDict.pop(name, None)
    logging.root.manager.loggerDict.pop("weir_tests", None)


def command(*ops: ConfigOp, name: str = "1", validate_only: bool = False, replaces: bool = False):
    resource = ConfigResource(ResourceType.BROKER_LOGGER, name)
    return IncrementalAlterConfigs((ConfigAlteration(resource, ops),), validate_only, replaces)


def put(name: str, level: str | None) -> ConfigOp:
    return ConfigOp(name, OpType.SET, level)


def refusal(*ops: ConfigOp, role: Role = Role.ADMIN, **more: object) -> ResourceOutcome:
    plan = World().plan(plan_alter_configs, command(*ops, **more), role)
    assert plan.changes == () and plan.effects == ()
    (outcome,) = plan.result
    return outcome


async def test_a_level_is_set_inherited_and_taken_away(control: Control) -> None:
    before = control.image
    above = levels()["root"]
    assert levels()[INNER] == levels()[PART] == above
    for word in LEVELS:
        (outcome,) = await control.apply(command(put(PART, word)), actor())
        assert outcome.ok
        assert (levels()[PART], levels()[INNER]) == (word, word)
        assert logging.getLogger(INNER).isEnabledFor(LEVELS[word])
        assert not logging.getLogger(INNER).isEnabledFor(LEVELS[word] - 1)
    (outcome,) = await control.apply(command(ConfigOp(PART, OpType.DELETE)), actor())
    assert outcome.ok and levels()[INNER] == above
    assert control.image is before


async def test_validating_sets_no_level(control: Control) -> None:
    (outcome,) = await control.apply(command(put(INNER, "FATAL"), validate_only=True), actor())
    assert outcome.ok and levels()[INNER] == levels()["root"]


@pytest.mark.parametrize(
    ("op", "error", "words"),
    [
        (put("nobody", "INFO"), ErrorCode.INVALID_CONFIG, "Logger nobody does not exist!"),
        (ConfigOp("nobody", OpType.DELETE), ErrorCode.INVALID_CONFIG, "Logger nobody does not exist!"),
        (
            put(INNER, "info"),
            ErrorCode.INVALID_CONFIG,
            f"Cannot set the log level of {INNER} to info as it is not a supported log level. "
            "Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN",
        ),
        (put(INNER, None), ErrorCode.INVALID_REQUEST, f"Null value not supported for : {INNER}"),
        (
            ConfigOp("root", OpType.DELETE),
            ErrorCode.INVALID_REQUEST,
            "Removing the log level of the root logger is not allowed",
        ),
        (
            ConfigOp(INNER, OpType.APPEND, "INFO"),
            ErrorCode.INVALID_REQUEST,
            "APPEND operation is not allowed for the BROKER_LOGGER resource",
        ),
        (
            ConfigOp(INNER, OpType.SUBTRACT, "INFO"),
            ErrorCode.INVALID_REQUEST,
            "SUBTRACT operation is not allowed for the BROKER_LOGGER resource",
        ),
        (ConfigOp(INNER, 9, "INFO"), ErrorCode.INVALID_REQUEST, "Unknown operation type 9."),
    ],
)
def test_one_bad_level_refuses_them_all(op: ConfigOp, error: ErrorCode, words: str) -> None:
    outcome = refusal(put(PART, "FATAL"), op)
    assert (outcome.error, outcome.message) == (error, words)
    assert levels()[PART] == levels()["root"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("2", "Unexpected broker id, expected 1, but received 2"),
        ("one", "Node id must be an integer, but it is: one"),
        ("", "Node id must be an integer, but it is: ''"),
    ],
)
def test_levels_are_those_of_this_broker(name: str, words: str) -> None:
    outcome = refusal(put(INNER, "INFO"), name=name)
    assert (outcome.error, outcome.message) == (ErrorCode.INVALID_REQUEST, words)


def test_levels_are_an_administrators() -> None:
    assert refusal(put(INNER, "INFO"), role=Role.EDITOR).error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_the_elder_alter_configs_knows_no_loggers_as_in_kafka() -> None:
    outcome = refusal(put(INNER, "INFO"), replaces=True)
    assert (outcome.error, outcome.message) == (ErrorCode.INVALID_REQUEST, "Unknown resource type 8")


async def test_a_level_is_not_set_where_what_stands_beside_it_cannot_be_written(
    control: Control, committer: StoreCommitter
) -> None:
    committer.fault = ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "full")
    setting = ConfigAlteration(ConfigResource(ResourceType.BROKER, ""), (put("log.retention.ms", "77"),))
    both = IncrementalAlterConfigs((*command(put(INNER, "FATAL")).resources, setting))
    outcomes = await control.apply(both, actor())
    assert [each.error for each in outcomes] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    assert levels()[INNER] == levels()["root"]
