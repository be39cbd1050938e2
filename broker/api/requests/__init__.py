"""The common parts of the handlers of all APIs: the context and outcome of a request, quotas, waiting,
errors.
"""
