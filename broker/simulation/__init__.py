"""Simulates the effect of quotas on a load: simulated clients, the broker's own quotas, a simulated clock.

Called by `weir simulate`. broker.quotas decides on throttling, called as a broker calls it; this package
only simulates the clients and sums up the results.

Reading order: `scenario` (the input), `schedule` (a client's demand over time), `arrivals` (the requests of
that demand), `idle_periods` (periods without throttling, which are counted and not simulated), `connection`
(one request in flight, then a throttle), `clients` (all connections), `engine` (their requests in order of
time), `summary` and `report` (the result). Files: `fields` (strict YAML with line and field in errors),
`reading`, `limits`, `recorded`.
"""
