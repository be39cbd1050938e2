"""Applies metadata changes to the running broker: `metadata` for quotas and topics, `settings` for the
broker's keys. `server` registers both.
"""
