"""Client telemetry (KIP-714): which clients are asked for which metrics, and what they then send.

patterns        regular expressions that cannot take longer than their text is
subscription    what an operator writes down: metric prefixes, interval, and which clients it is for
"""
