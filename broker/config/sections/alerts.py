"""Alerts: how often rules are evaluated, and where notifications may go. For broker.monitoring.alerts and
broker.controller.alerts.
"""

from dataclasses import dataclass

from broker.config.host_patterns import ALLOWED, PUBLIC, HostPattern
from broker.config.kinds import integer, list_of
from broker.config.setting import setting


@dataclass(frozen=True, slots=True)
class AlertConfig:
    destination_hosts: tuple[HostPattern, ...] = setting(
        "alerts.destination.hosts",
        (PUBLIC,),
        list_of(HostPattern.read, ALLOWED),
        "Hosts that notifications of alerts may be sent to. `public` stands for all addresses of the "
        "Internet, over https only: chats and pagers work without configuration, and an administrator of "
        "the console cannot make the broker send requests to its own machine or into the private "
        "network, where they could do harm. Name the hosts there that may receive them, such as "
        "alertmanager:9093. The address that a name has when the broker connects counts; redirects are "
        "not followed. Empty: no host.",
        ours=True,
    )
    interval_ms: int = setting(
        "alerts.evaluation.interval.ms",
        5_000,
        integer(1_000, 3_600_000),
        "Interval at which alert rules are evaluated. Without rules nothing is evaluated.",
        unit="ms",
        ours=True,
    )
    timeout_ms: int = setting(
        "alerts.destination.timeout.ms",
        10_000,
        integer(100, 60_000),
        "How long a destination has to accept a notification; then it is sent again.",
        unit="ms",
        ours=True,
    )
