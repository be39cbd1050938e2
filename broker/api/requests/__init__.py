"""What the handlers of all APIs use: the context and outcome of a request, quotas, waiting, errors, the
outcomes of coordinators.
"""
