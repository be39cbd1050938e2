"""Groups of the classic protocol. In reading order: phase, member, group, rebalance, join, sync, leave,
expiry.
"""
