"""A new connection as the connection quotas see it, on a listener and a broker without limits."""

from broker.quotas.connections import ConnectionQuotas, ListenerQuota, Refusal


def connect_from(
    quotas: ConnectionQuotas, listener: ListenerQuota, address: str, now_ms: int
) -> Refusal | None:
    """Return why the address may not have the connection, or None once it is counted."""
    refusal = quotas.check_address(listener, address, now_ms)
    return quotas.enter(listener, address, now_ms) if refusal is None else refusal
