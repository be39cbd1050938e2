"""Bounds the bytes of requests in memory, by `queued.max.request.bytes`. (KIP-72)"""
