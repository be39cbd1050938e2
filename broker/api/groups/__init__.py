"""What the handlers of groups have in common: replies of the coordinator."""
