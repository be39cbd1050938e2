"""Streams groups (KIP-1071): their members, and the settings of one group. For
broker.coordinator.group.streams.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from broker.common.errors import ChangeRefused
from broker.config.kinds import BOOLEAN, INT_MAX, choices_of, integer, list_of, long, one_of
from broker.config.sections.groups import AT_LEAST, AT_MOST, GroupTimes, Limited, MemberTimes
from broker.config.setting import Setting

STREAMS: Final = "streams"
"""The prefix of the settings of one group."""

STICKY: Final = "sticky"

INITIAL_DELAY: Final = f"{STREAMS}.initial.rebalance.delay.ms"
STORED_REPLICAS, STORED_TAGS = "num.standby.replicas", "rack.aware.assignment.tags"
"""The names in the records of a group."""

STANDBY_REPLICAS: Final = f"{STREAMS}.{STORED_REPLICAS}"
RACK_TAGS: Final = f"{STREAMS}.{STORED_TAGS}"
TASK_OFFSET_INTERVAL: Final = f"{STREAMS}.task.offset.interval.ms"
WARMUP_REPLICAS: Final = f"{STREAMS}.num.warmup.replicas"
RECOVERY_LAG: Final = f"{STREAMS}.acceptable.recovery.lag"

ASSIGNOR_NAME: Final = Setting(
    f"{STREAMS}.assignor.name",
    None,
    one_of(STICKY),
    doc="The task assignor of the group; without one, it is the first one of `group.streams.assignors`.",
)

_NO_WARMUPS: Final = "no assignor of Kafka 4.4 assigns warm-up tasks"


TAGS: Final = list_of(str, "a list of tag keys")


@dataclass(frozen=True, slots=True)
class StreamsGroupConfig:
    session_timeout_ms: int = Setting("group.streams.session.timeout.ms", 45_000, integer(1), "ms").described(
        "A member of a streams group that sends no heartbeat for this time is removed. A group's own "
        "`streams.session.timeout.ms` takes precedence."
    )
    min_session_timeout_ms: int = Setting(
        "group.streams.min.session.timeout.ms", 45_000, integer(1), "ms"
    ).described("The shortest `streams.session.timeout.ms` of a group.")
    max_session_timeout_ms: int = Setting(
        "group.streams.max.session.timeout.ms", 60_000, integer(1), "ms"
    ).described("The longest `streams.session.timeout.ms` of a group.")
    heartbeat_interval_ms: int = Setting(
        "group.streams.heartbeat.interval.ms", 5_000, integer(1), "ms"
    ).described(
        "The interval of the heartbeats, which the broker sends to the members of a streams group. A group's "
        "own `streams.heartbeat.interval.ms` takes precedence."
    )
    min_heartbeat_interval_ms: int = Setting(
        "group.streams.min.heartbeat.interval.ms", 5_000, integer(1), "ms"
    ).described("The shortest `streams.heartbeat.interval.ms` of a group.")
    max_heartbeat_interval_ms: int = Setting(
        "group.streams.max.heartbeat.interval.ms", 15_000, integer(1), "ms"
    ).described("The longest `streams.heartbeat.interval.ms` of a group.")
    max_size: int = Setting("group.streams.max.size", 1_000, integer(1)).described(
        "Maximum number of members of one streams group; each thread of an application is one. A member that "
        "exceeds it is refused with GROUP_MAX_SIZE_REACHED.",
        kafka_default=str(INT_MAX),
        why="The tasks of a group are assigned to all members at once.",
    )
    num_standby_replicas: int = Setting("group.streams.num.standby.replicas", 0, integer(0)).described(
        "The number of standby tasks of each task with state. A group's own `streams.num.standby.replicas` "
        "takes precedence."
    )
    max_standby_replicas: int = Setting("group.streams.max.standby.replicas", 2, integer(0)).described(
        "The largest `streams.num.standby.replicas` of a group."
    )
    initial_delay_ms: int = Setting(
        "group.streams.initial.rebalance.delay.ms", 3_000, integer(0), "ms"
    ).described(
        "How long the first assignment of an empty streams group waits for more members. A group's own "
        "`streams.initial.rebalance.delay.ms` takes precedence."
    )
    assignment_interval_ms: int = Setting(
        "group.streams.assignment.interval.ms", 1_000, integer(0), "ms", dynamic=True
    ).described(
        "The shortest time between two assignments of the tasks of a streams group. A group's own "
        "`streams.assignment.interval.ms` takes precedence."
    )
    min_assignment_interval_ms: int = Setting(
        "group.streams.min.assignment.interval.ms", 0, integer(0), "ms"
    ).described("The shortest `streams.assignment.interval.ms` of a group.")
    max_assignment_interval_ms: int = Setting(
        "group.streams.max.assignment.interval.ms", 15_000, integer(0), "ms"
    ).described("The longest `streams.assignment.interval.ms` of a group.")
    assignors: tuple[str, ...] = Setting(
        "group.streams.assignors",
        (STICKY,),
        choices_of(STICKY),
    ).described("The task assignors of streams groups; the first one is the default.")
    assignor_offload: bool = Setting(
        "group.streams.assignor.offload.enable",
        True,
        BOOLEAN,
        dynamic=True,
        inert="the broker assigns the tasks of a large group in pieces",
        internal=True,
    ).described("Whether a thread in the background assigns the tasks.")
    task_offset_interval_ms: int = Setting(
        "group.streams.task.offset.interval.ms", 60_000, integer(1), "ms", internal=True
    ).described(
        "The interval in which the members of a streams group state how far their state is restored. A "
        "group's own `streams.task.offset.interval.ms` takes precedence."
    )
    min_task_offset_interval_ms: int = Setting(
        "group.streams.min.task.offset.interval.ms", 15_000, integer(1), "ms", internal=True
    ).described("The shortest `streams.task.offset.interval.ms` of a group.")
    num_warmup_replicas: int = Setting(
        "group.streams.num.warmup.replicas", 2, integer(0), inert=_NO_WARMUPS, internal=True
    ).described("Maximum number of warm-up tasks of a group.")
    max_warmup_replicas: int = Setting(
        "group.streams.max.warmup.replicas", 20, integer(0), internal=True
    ).described("The largest `streams.num.warmup.replicas` of a group.")
    rack_aware_assignment_tags: tuple[str, ...] = Setting(
        "group.streams.rack.aware.assignment.tags", (), TAGS
    ).described(
        "The keys of the client tags that the members of a streams group must have; one that lacks some is "
        "told so. The assignor does not use them, as in Kafka 4.4. A group's own "
        "`streams.rack.aware.assignment.tags` takes precedence."
    )
    acceptable_recovery_lag: int = Setting(
        "group.streams.acceptable.recovery.lag", 10_000, long(0), "records", internal=True
    ).described(
        "How far the state of a task may be behind for a member to run it; the broker sends it to the "
        "members. A group's own `streams.acceptable.recovery.lag` takes precedence."
    )

    @property
    def times(self) -> MemberTimes:
        return MemberTimes(
            Limited(self.min_session_timeout_ms, self.session_timeout_ms, self.max_session_timeout_ms),
            Limited(
                self.min_heartbeat_interval_ms, self.heartbeat_interval_ms, self.max_heartbeat_interval_ms
            ),
            Limited(
                self.min_assignment_interval_ms, self.assignment_interval_ms, self.max_assignment_interval_ms
            ),
        )

    @property
    def limits(self) -> Mapping[str, Limited]:
        """The ranges of other settings of a group, by its key."""
        return {
            STANDBY_REPLICAS: Limited(0, self.num_standby_replicas, self.max_standby_replicas, AT_MOST),
            TASK_OFFSET_INTERVAL: Limited(
                self.min_task_offset_interval_ms, self.task_offset_interval_ms, INT_MAX, AT_LEAST
            ),
            WARMUP_REPLICAS: Limited(0, self.num_warmup_replicas, self.max_warmup_replicas, AT_MOST),
        }

    def check(self) -> None:
        """Check the rules between keys. Raises ConfigError."""
        self.times.check(STREAMS)
        for key, limited in self.limits.items():
            limited.check(f"group.{STREAMS}", key.removeprefix(f"{STREAMS}."))


class StreamsGroupSettings(NamedTuple):
    """The settings of one streams group."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    initial_delay_ms: int
    assignment_interval_ms: int
    task_offset_interval_ms: int
    acceptable_recovery_lag: int
    num_standby_replicas: int
    rack_aware_assignment_tags: tuple[str, ...]
    assignor: str
    max_size: int

    @property
    def assignment_configs(self) -> tuple[tuple[str, str], ...]:
        """The settings that an assignment depends on, by their names in the group's record."""
        configs = ((STORED_REPLICAS, str(self.num_standby_replicas)),)
        if not self.rack_aware_assignment_tags:
            return configs
        return (*configs, (STORED_TAGS, ",".join(self.rack_aware_assignment_tags)))


def streams_group_settings(configs: Mapping[str, str], config: StreamsGroupConfig) -> StreamsGroupSettings:
    """Return the settings of a streams group with these of its own."""
    return _settings(configs, config) if configs else _settings_of_broker(config)


@lru_cache(maxsize=1)
def _settings_of_broker(config: StreamsGroupConfig) -> StreamsGroupSettings:
    """Return the settings of a group that has none of its own, as most groups have none."""
    return _settings({}, config)


def _settings(configs: Mapping[str, str], config: StreamsGroupConfig) -> StreamsGroupSettings:
    times: GroupTimes = config.times.of_group(configs, STREAMS)
    limits = config.limits
    tags = configs.get(RACK_TAGS)
    return StreamsGroupSettings(
        times.session_timeout_ms,
        times.heartbeat_interval_ms,
        int(configs.get(INITIAL_DELAY, config.initial_delay_ms)),
        times.assignment_interval_ms,
        limits[TASK_OFFSET_INTERVAL].of_group(configs, TASK_OFFSET_INTERVAL),
        int(configs.get(RECOVERY_LAG, config.acceptable_recovery_lag)),
        limits[STANDBY_REPLICAS].of_group(configs, STANDBY_REPLICAS),
        config.rack_aware_assignment_tags if tags is None else TAGS.read(tags),
        configs.get(ASSIGNOR_NAME.key, config.assignors[0]),
        config.max_size,
    )


def check_streams_group(configs: Mapping[str, str], config: StreamsGroupConfig) -> None:
    """Check the settings of one group, each of which can be read. Raises ConfigError."""
    config.times.check_group(configs, STREAMS)
    for key, limited in config.limits.items():
        limited.check_group(configs, key)
    tags = configs.get(RACK_TAGS, "").strip()
    stated = [tag.strip() for tag in tags.split(",")] if tags else []
    if len(set(stated)) < len(stated):
        raise ChangeRefused(RACK_TAGS, tags, f"{RACK_TAGS} must not contain duplicate tag keys.")
