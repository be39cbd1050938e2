"""How many bytes of requests may be in memory at once. Only there with `queued.max.request.bytes`.
(KIP-72)
"""
