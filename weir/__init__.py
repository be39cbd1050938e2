"""Weir's public names: what a class of the operator's, or another program, may import.

    QuotaCallback, Cluster, Entity, DEFAULT, Principal, QuotaKind    for `client.quota.callback.class`
    TelemetryReceiver, PushedMetrics                                 for `telemetry.receivers`

docs/quota-callback.md and docs/telemetry.md explain them. A name is imported when it is first used.

Where Weir is installed, its packages are in this one. They are private: any version may change them.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    __version__: str

    from broker.quotas.callback import DEFAULT, Cluster, Entity, Principal, QuotaKind
    from broker.quotas.callback import ClientQuotaCallback as QuotaCallback
    from broker.telemetry.receiver import PushedMetrics, TelemetryReceiver
else:
    # `weir` imports this package before it decides whether it runs the sources (broker/start.py).
    def __getattr__(name):
        if name == "__version__":
            from broker.common.version import VERSION

            return VERSION
        if name == "QuotaCallback":
            from broker.quotas.callback import ClientQuotaCallback

            return ClientQuotaCallback
        if name in ("DEFAULT", "Cluster", "Entity", "Principal", "QuotaKind"):
            from broker.quotas import callback

            return getattr(callback, name)
        if name in ("PushedMetrics", "TelemetryReceiver"):
            from broker.telemetry import receiver

            return getattr(receiver, name)
        raise AttributeError(f"module {__name__} has no attribute {name}")


__all__ = [
    "DEFAULT",
    "Cluster",
    "Entity",
    "Principal",
    "PushedMetrics",
    "QuotaCallback",
    "QuotaKind",
    "TelemetryReceiver",
    "__version__",
]
