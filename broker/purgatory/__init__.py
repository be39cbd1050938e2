"""Delayed requests. In reading order: timing_wheel, purgatory."""
