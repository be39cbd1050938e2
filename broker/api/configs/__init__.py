"""The common parts of the handlers of configs and topics."""
