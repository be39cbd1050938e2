"""What the handlers of configs and topics have in common."""
