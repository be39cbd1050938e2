"""Statistics and the arithmetic that quotas rest on. Pure: time is an argument, in milliseconds.

Reading order: `rate` (the throttle formula, SampledStat and its kinds, Rate, SimpleRate, Meter, CounterRate,
TokenBucket), `histogram`, `families` (families of labelled samples, and their text format).
"""
