"""The container images, built and used for real by `tests/image/run` (make image-test)."""
