"""Tests of broker.protocol; kio, a second implementation, is the referee."""
