"""Delayed requests. In reading order: delay_queue, timing_wheel, timer, purgatory."""
