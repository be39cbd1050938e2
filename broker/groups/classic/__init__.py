"""Groups of the classic protocol.

Reading order: state, member, group, rebalance, join, sync, leave.
"""
