"""`weir gateway` in front of a real cluster of Apache Kafka, which is started once for all of these tests."""
