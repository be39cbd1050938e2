"""Tables for operators. Every module has pure functions of silver tables: frames in, a frame out.

`usage`, `throttling`, `latency` and `client_metrics` per minute; `limits` the limits in force and their
utilisation; `clients` outliers: heavy clients, connection storms, shared client ids; `throttle_compliance`
clients' compliance with throttle_time_ms; `advice` recommended quotas.
"""
