"""What is counted, and the arithmetic that quotas rest on. Pure: time is an argument, in milliseconds.

Reading order: `counters` (Counter, Gauge, Histogram: plain adds for the hot path), `window` (SampledStat and
its kinds), `rate` (Rate, SimpleRate, Meter), `token_bucket`, `quota` (Quota, Violation, the throttle
formula), `sensor` (several stats under one name, with quotas and expiry), `registry` (families of labelled
series), `prometheus` (the text format).
"""
