"""Statistics and the arithmetic that quotas rest on. Pure: time is an argument, in milliseconds.

Reading order: `window` (SampledStat and its kinds), `rate` (Rate, SimpleRate, Meter, CounterRate,
TokenBucket), `quota` (the throttle formula), `histogram`, `families` (families of labelled samples, and
their text format).
"""
