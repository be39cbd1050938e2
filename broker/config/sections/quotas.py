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
        "Number of samples over which a client's rate is measured.",
    )
    window_size_seconds: int = setting(
        "quota.window.size.seconds",
        1,
        integer(1),
        "Length of one sample.",
        unit="s",
    )
    controller_window_num: int = setting(
        "controller.quota.window.num",
        11,
        integer(1),
        "Number of samples whose quota of controller mutations a client can accumulate.",
    )
    controller_window_size_seconds: int = setting(
        "controller.quota.window.size.seconds",
        1,
        integer(1),
        "Length of one of these samples.",
        unit="s",
    )
    callback_class: str = setting(
        "client.quota.callback.class",
        "",
        TEXT,
        "A Python class, `package.module:Class`, that replaces the rules: it decides which clients share a "
        "quota and the limit (KIP-257, [quota-callback.md](quota-callback.md)). It receives all keys, "
        "including unknown ones.",
    )
    metrics_max_entities: int = setting(
        "quota.metrics.max.entities",
        1_000,
        integer(0),
        "Maximum number of entities with their own series on /metrics, for each kind of quota: those with "
        "the highest usage.",
        dynamic=True,
        ours=True,
    )
    bandwidth_algorithm: str = setting(
        "quota.bandwidth.algorithm",
        "paced",
        one_of("paced", "rate", "token_bucket"),
        "How the broker limits a client above its byte rate: `rate` is Kafka's rule, which admits ten "
        "seconds of quota in one burst and then throttles; `paced` has the same first throttle and then "
        "spreads requests evenly; `token_bucket` admits quota.bandwidth.burst.seconds of quota above the "
        "rate.",
        ours=True,
    )
    bandwidth_burst_seconds: float = setting(
        "quota.bandwidth.burst.seconds",
        1.0,
        decimal(0.1, 3600),
        "Seconds of quota that a client can send at once if quota.bandwidth.algorithm is token_bucket.",
        unit="s",
        ours=True,
    )
    max_throttle_ms: int = setting(
        "quota.max.throttle.ms",
        -1,
        long(-1),
        "Maximum time that a byte-rate quota mutes a connection at once; -1: unlimited.",
        unit="ms",
        dynamic=True,
        ours=True,
    )

    @property
    def longest_throttle_ms(self) -> int | None:
        """Return the maximum throttle time; None: unlimited."""
        return None if self.max_throttle_ms < 0 else self.max_throttle_ms

    @property
    def burst_ms(self) -> int | None:
        """Return the capacity of a bandwidth bucket, in milliseconds of its rate; None without buckets."""
        return (
            round(self.bandwidth_burst_seconds * 1000) if self.bandwidth_algorithm == "token_bucket" else None
        )
