"""Gold tables. Every module has pure functions of silver tables: frames in, a frame out.

`usage`, `throttling`, `latency` and `client_metrics` are by minute; `limits`: the limits over time and their
use; `clients` has offenders, connection storms and shared client ids; `throttle_compliance` whether clients
wait out their throttles; `advice` recommended quotas.
"""
