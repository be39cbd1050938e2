"""Subcommands of `weir` besides `serve`.

`quotas` and `top` use the REST API of a running broker's console; `simulate` runs the broker's quota code
without a broker.
"""
