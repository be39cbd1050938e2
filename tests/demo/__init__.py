"""The demo, without a broker: tests/endtoend/test_demo.py has one."""
