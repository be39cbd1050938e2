"""Tables for operators. Every module has pure functions of silver tables: frames in, a frame out.

`usage` clients' traffic; `throttling` their throttles and compliance; `latency` durations of requests;
`client_metrics` what clients push; `connections` storms and shared client ids; `limits` the limits in force
and their utilisation; `advice` recommended quotas.
"""
