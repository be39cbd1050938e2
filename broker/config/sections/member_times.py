"""Session timeouts and heartbeat intervals of groups whose partitions the broker assigns. For
`consumer_groups` and `share_groups`, which have the same keys with another prefix: `consumer`, `share`.
"""

from collections.abc import Mapping
from typing import NamedTuple

from broker.common.errors import ConfigError

SESSION, HEARTBEAT = "session.timeout.ms", "heartbeat.interval.ms"


class Limited(NamedTuple):
    """A setting of the broker, and the limits of that of a group."""

    least: int
    value: int
    most: int

    def check(self, prefix: str, name: str) -> None:
        """Check the broker's keys `<prefix>.<name>`, `<prefix>.min.<name>` and max. Raises ConfigError."""
        least, value, most = self
        if least > most:
            raise ConfigError(f"{prefix}.min.{name}", least, f"at most {prefix}.max.{name} ({most})")
        if not least <= value <= most:
            raise ConfigError(f"{prefix}.{name}", value, f"between {least} and {most}")

    def of_group(self, configs: Mapping[str, str], key: str) -> int:
        """Return the setting of a group with these of its own. A value outside the broker's range, which may
        have changed since, counts as the limit.
        """
        value = int(configs[key]) if key in configs else self.value
        return min(max(value, self.least), self.most)

    def check_group(self, configs: Mapping[str, str], key: str) -> None:
        """Check the setting of a group, which is a whole number. Raises ConfigError."""
        if key in configs and not self.least <= int(configs[key]) <= self.most:
            raise ConfigError(key, configs[key], f"between {self.least} and {self.most}")


class MemberTimes(NamedTuple):
    """The broker's settings."""

    session: Limited
    heartbeat: Limited

    def check(self, prefix: str) -> None:
        """Check the rules between the broker's keys. Raises ConfigError."""
        self.session.check(f"group.{prefix}", SESSION)
        self.heartbeat.check(f"group.{prefix}", HEARTBEAT)
        _check_order(f"group.{prefix}", self.heartbeat.value, self.session.value)

    def of_group(self, configs: Mapping[str, str], prefix: str) -> "GroupTimes":
        """Return the settings of a group with these of its own."""
        return GroupTimes(
            self.session.of_group(configs, f"{prefix}.{SESSION}"),
            self.heartbeat.of_group(configs, f"{prefix}.{HEARTBEAT}"),
        )

    def check_group(self, configs: Mapping[str, str], prefix: str) -> None:
        """Check the settings of a group, which are whole numbers. Raises ConfigError."""
        self.session.check_group(configs, f"{prefix}.{SESSION}")
        self.heartbeat.check_group(configs, f"{prefix}.{HEARTBEAT}")
        times = self.of_group(configs, prefix)
        _check_order(prefix, times.heartbeat_interval_ms, times.session_timeout_ms)


class GroupTimes(NamedTuple):
    """The settings of one group."""

    session_timeout_ms: int
    heartbeat_interval_ms: int


def _check_order(prefix: str, heartbeat_ms: int, session_ms: int) -> None:
    if heartbeat_ms >= session_ms:
        raise ConfigError(
            f"{prefix}.{HEARTBEAT}", heartbeat_ms, f"less than {prefix}.{SESSION} ({session_ms})"
        )
