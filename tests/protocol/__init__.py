"""Tests of broker.protocol, with kio as the second implementation."""
