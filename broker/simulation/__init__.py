"""What quotas would do to a load: clients who want something, the broker's own quotas, a clock that jumps.

Called by `weir simulate`. Whether a request is held, and for how long, is asked of broker.quotas, as a broker
would ask it; this room only plays the clients and keeps the account.

Reading order: `scenario` (what is asked), `schedule` (when a client wants how much), `arrivals` (which
requests that makes), `idle` (stretches in which nobody can be held, so that nothing need be played),
`connection` (one request in flight, then a wait), `clients` (who takes part), `play` (all of them in the
order of time), `tally` and `report` (what came of it). Files: `fields` (YAML that is refused with a line and
a field), `reading`, `limits`, `recorded`.
"""
