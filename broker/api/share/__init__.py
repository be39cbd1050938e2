"""What the handlers of share groups have in common: acknowledgements, a ShareFetch in progress, states."""
