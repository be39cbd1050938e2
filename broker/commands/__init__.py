"""What `weir` can do beside `serve`: `quotas` and `top` ask a running broker through the console's REST
API, `simulate` asks the broker's own quotas without one.
"""
