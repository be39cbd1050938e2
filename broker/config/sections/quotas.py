"""How client quotas are measured. For broker.quotas; the quotas themselves are metadata."""

from dataclasses import dataclass

from broker.config.kinds import TEXT, decimal, integer, long, one_of
from broker.config.setting import setting


@dataclass(frozen=True, slots=True)
class QuotaConfig:
    window_num: int = setting(
        "quota.window.num",
        11,
        integer(1),
        "Windows over which a client's rate is measured.",
    )
    window_size_seconds: int = setting(
        "quota.window.size.seconds",
        1,
        integer(1),
        "The length of one window.",
        unit="s",
    )
    controller_window_num: int = setting(
        "controller.quota.window.num",
        11,
        integer(1),
        "Windows whose worth of controller mutations a client can save up.",
    )
    controller_window_size_seconds: int = setting(
        "controller.quota.window.size.seconds",
        1,
        integer(1),
        "The length of one of them.",
        unit="s",
    )
    callback_class: str = setting(
        "client.quota.callback.class",
        "",
        TEXT,
        "A Python class, `package.module:Class`, that decides in the place of the rules who shares a client "
        "quota and how high it is (KIP-257, [quota-callback.md](quota-callback.md)). It is told all keys, "
        "also those that the broker does not know.",
    )
    metrics_max_entities: int = setting(
        "quota.metrics.max.entities",
        1_000,
        integer(0),
        "Entities with series of their own on /metrics, for each kind of quota: those that use most.",
        dynamic=True,
        ours=True,
    )
    bandwidth_algorithm: str = setting(
        "quota.bandwidth.algorithm",
        "paced",
        one_of("paced", "rate", "token_bucket"),
        "How a client that broke its byte rate is brought down to it: `rate` is Kafka's rule alone, which "
        "lets ten seconds' worth through in one burst and then waits; `paced` goes on evenly from the same "
        "first wait; `token_bucket` lets quota.bandwidth.burst.seconds' worth through beyond the rate.",
        ours=True,
    )
    bandwidth_burst_seconds: float = setting(
        "quota.bandwidth.burst.seconds",
        1.0,
        decimal(0.1, 3600),
        "How many seconds' worth a client may send at once where quota.bandwidth.algorithm is token_bucket.",
        unit="s",
        ours=True,
    )
    max_throttle_ms: int = setting(
        "quota.max.throttle.ms",
        -1,
        long(-1),
        "The longest that a byte-rate quota mutes a connection at once; -1: as long as the formula says.",
        unit="ms",
        dynamic=True,
        ours=True,
    )

    @property
    def longest_throttle_ms(self) -> int | None:
        """None for as long as the formula says."""
        return None if self.max_throttle_ms < 0 else self.max_throttle_ms

    @property
    def burst_ms(self) -> int | None:
        """What a bucket of bandwidth holds, as milliseconds of its rate; None where there are none."""
        return (
            round(self.bandwidth_burst_seconds * 1000) if self.bandwidth_algorithm == "token_bucket" else None
        )
