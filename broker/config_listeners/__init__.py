"""What the running broker does when the metadata changes: `metadata` for quotas and topics, `settings` for
the broker's own keys. Subscribed by `server`, once.
"""
