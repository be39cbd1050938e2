"""Simulates the effect of quotas on a load: simulated clients, the broker's own quotas, a simulated clock.

Called by `weir simulate`. broker.quotas decides on throttling, called as a broker calls it; this package
only simulates the clients and sums up the results.

Reading order: `scenario` (the input: clients and their demand over time), `arrivals` (the requests of that
demand), `idle_periods` (periods without throttling, which are counted and not simulated), `connection` (one
request in flight, then a throttle), `engine` (all connections, and their requests in order of time),
`summary` and `report` (the result), `parts` (a recorded load in several processes). Files: `scenario_file`.
"""
