"""Alerts: how often rules are evaluated, and where notifications may go. For broker.monitoring.alerts and
broker.controller.alerts.
"""

from dataclasses import dataclass

from broker.config.host_patterns import ALLOWED, PUBLIC, HostPattern
from broker.config.kinds import integer, list_of
from broker.config.setting import Setting


@dataclass(frozen=True, slots=True)
class AlertConfig:
    destination_hosts: tuple[HostPattern, ...] = Setting(
        "alerts.destination.hosts", (PUBLIC,), list_of(HostPattern.read, ALLOWED), ours=True
    ).described(
        "Hosts that notifications of alerts may be sent to. `public` stands for all addresses of the "
        "Internet, over https only: chats and pagers work without configuration, and an administrator of "
        "the console cannot make the broker send requests to its own machine or into the private "
        "network, where they could do harm. Name the hosts there that may receive them, such as "
        "alertmanager:9093. The address that a name has when the broker connects counts; redirects are "
        "not followed. Empty: no host."
    )
    interval_ms: int = Setting(
        "alerts.evaluation.interval.ms", 5_000, integer(1_000, 3_600_000), "ms", ours=True
    ).described("Interval at which alert rules are evaluated. Without rules nothing is evaluated.")
    timeout_ms: int = Setting(
        "alerts.destination.timeout.ms", 10_000, integer(100, 60_000), "ms", ours=True
    ).described("How long a destination has to accept a notification; then it is sent again.")
