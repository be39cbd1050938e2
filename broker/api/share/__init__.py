"""The common parts of the handlers of share groups: acknowledgements, a ShareFetch in progress, states."""
