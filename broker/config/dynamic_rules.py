"""Rules that apply to dynamic changes only. broker.server checks them before a change is written.

(Kafka: DynamicThreadPool.validateReconfiguration, DataPlaneAcceptor.validateReconfiguration,
DynamicListenerConfig.validateReconfiguration, with their messages.)
"""

from broker.config.sections.network import NetworkConfig
from broker.errors import ChangeRefused


def check_network(old: NetworkConfig, new: NetworkConfig) -> None:
    """Raise ChangeRefused for a change that requires a restart."""
    check_threads("num.io.threads", old.num_io_threads, new.num_io_threads)
    was = {each.name: each for each in old.resolved_listeners()}
    for listener in new.resolved_listeners():
        name = listener.name
        if name not in was:
            continue
        if listener.protocol is not was[name].protocol:
            raise ChangeRefused(
                "listener.security.protocol.map",
                f"{name}:{listener.protocol}",
                f"Security protocol cannot be updated for existing listener {name}",
            )
        check_threads(
            "num.network.threads",
            old.for_listener(name).num_network_threads,
            new.for_listener(name).num_network_threads,
        )


def check_threads(key: str, old: int, new: int) -> None:
    """Allow a change from half the current value, rounded down, to double, so that a typing error stops
    nothing.

    Raises ChangeRefused.
    """
    said = f"Dynamic thread count update validation failed for {key}={new}, value should"
    if new < 1:
        raise ChangeRefused(key, new, f"{said} be at least 1")
    if new < old // 2:
        raise ChangeRefused(key, new, f"{said} be at least half the current value {old}")
    if new > old * 2:
        raise ChangeRefused(key, new, f"{said} not be greater than double the current value {old}")
