"""Kerberos: the keys of Kafka that clients and files set, all without effect, because no login here uses it.

Kafka changes them while it runs, for one broker. (Kafka: BrokerSecurityConfigs, DynamicListenerConfig)
"""

from dataclasses import dataclass
from sys import float_info
from typing import Any, Final

from broker.config.kinds import TEXT, ConfigKind, decimal, list_of, long
from broker.config.setting import ListenerSection, Setting

_NO_KERBEROS: Final = "GSSAPI is not among the mechanisms that the broker has"


def _inert(
    key: str, default: Any, kind: ConfigKind, unit: str = "", default_words: str = "nothing"
) -> Setting:
    return Setting(
        f"sasl.kerberos.{key}",
        default,
        kind,
        unit,
        dynamic=True,
        per_broker=True,
        listener_too=True,
        inert=_NO_KERBEROS,
        default_words=default_words,
    )


@dataclass(frozen=True, slots=True)
class KerberosConfig(ListenerSection):
    service_name: str | None = _inert("service.name", None, TEXT, default_words="no name").described(
        "The name that Kafka's brokers run as."
    )
    kinit_cmd: str = _inert("kinit.cmd", "/usr/bin/kinit", TEXT).described("The path of Kerberos' kinit.")
    ticket_renew_window_factor: float = _inert(
        "ticket.renew.window.factor", 0.8, decimal(0, float_info.max)
    ).described("The share of a ticket's life after which it is renewed.")
    ticket_renew_jitter: float = _inert("ticket.renew.jitter", 0.05, decimal(0, float_info.max)).described(
        "The share of random time that is added to the time of the renewal."
    )
    min_time_before_relogin_ms: int = _inert("min.time.before.relogin", 60_000, long(0), "ms").described(
        "The least time between two attempts to renew a ticket."
    )
    principal_to_local_rules: tuple[str, ...] = _inert(
        "principal.to.local.rules", ("DEFAULT",), list_of(str, "a list of rules")
    ).described("The rules that make user names from Kerberos' principals; the first that matches is used.")
