"""The fixtures of `weir.pytest_plugin`, in runs of pytest of their own."""

import subprocess
import sys

import pytest

pytest_plugins = ("pytester",)

pytestmark = pytest.mark.endtoend


def run(pytester: pytest.Pytester, source: str, ini: str = "") -> pytest.RunResult:
    pytester.makepyfile(source)
    pytester.makeini(f"[pytest]\n{ini}")
    return pytester.runpytest_subprocess("-p", "no:randomly", "-p", "no:schemathesis", timeout=120)


def test_a_run_without_the_fixtures_imports_nothing_of_weir() -> None:
    program = (
        "import sys, weir.pytest_plugin\n"
        "print({'weir.testing', 'broker', 'weir.broker', 'anyio'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout == "set()\n"


def test_a_broker_for_the_session_and_a_topic_for_each_test(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import pytest
        seen = []

        @pytest.mark.parametrize("value", ["a b", "a/b", "ä", pytest.param("", id="x" * 300)])
        def test_topics(kafka_broker, kafka_topic, value):
            assert kafka_broker.records(kafka_topic) == []
            seen.append((kafka_broker, kafka_topic))

        def test_all():
            brokers, topics = zip(*seen)
            assert len(set(brokers)) == 1
            assert topics[:3] == ("test_topics-a-b-1", "test_topics-a-b-2", "test_topics-xe4-3")
            assert topics[3] == ("test_topics-" + "x" * 300)[:200] + "-4"
        """,
    )
    result.assert_outcomes(passed=5)


def test_the_settings_are_an_option(pytester: pytest.Pytester) -> None:
    source = """
        import json, urllib.request

        def test_one(kafka_broker):
            url = kafka_broker.console_url + "api/v1/broker-configs?search=num.partitions"
            headers = {"Authorization": f"Bearer {kafka_broker.token}"}
            with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as answer:
                rows = json.load(answer)["items"]
            assert {row["name"]: row["value"] for row in rows}["num.partitions"] == "3"
        """
    ini = "weir_settings =\n    num.partitions = 3\n    listeners=PLAINTEXT://127.0.0.1:0\n"
    run(pytester, source, ini).assert_outcomes(passed=1)
    wrong = run(pytester, source, "weir_settings = num.partitions")
    wrong.stdout.fnmatch_lines("*weir_settings: 'num.partitions' is not key=value*")
    wrong = run(pytester, source, "weir_settings = num.partitions=none")
    wrong.assert_outcomes(errors=1)
    wrong.stdout.fnmatch_lines("*BrokerError: the broker did not start: status 1*")
    wrong.stdout.fnmatch_lines("*num.partitions='none' is not allowed*")


def test_a_failed_test_shows_what_the_broker_logged_meanwhile(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        from weir.testing import Broker

        def test_first(kafka_broker):
            assert kafka_broker is None

        def test_second(kafka_broker):
            assert kafka_broker is None

        def test_third(kafka_broker):
            kafka_broker.restart()

        def test_fourth(kafka_broker):
            kafka_broker.restart()
            assert kafka_broker is None
        """,
    )
    result.assert_outcomes(failed=3, passed=1)
    shown = result.stdout.str()
    assert shown.count("Log of the broker kafka_broker") == 2
    first, fourth = shown.split("Log of the broker kafka_broker")[1:]
    assert first.count("Awaiting socket connections") == 1
    assert fourth.count("Awaiting socket connections") == 1
    assert "stopping signal=SIGTERM" in fourth


def test_a_broker_that_a_test_does_not_start_has_no_log(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import pytest
        from weir.testing import Broker

        @pytest.fixture
        def broker():
            return Broker()

        def test_one(broker):
            assert broker is None

        def test_two():
            pass
        """,
    )
    result.assert_outcomes(failed=1, passed=1)
    assert "Log of the broker" not in result.stdout.str()


def test_a_broker_that_dies_is_named(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import os, signal

        def test_kills(kafka_broker):
            os.kill(kafka_broker.pid, signal.SIGKILL)

        def test_after(kafka_topic):
            pass
        """,
    )
    result.assert_outcomes(passed=1, errors=2)
    result.stdout.fnmatch_lines("*BrokerError: the broker ended by itself: killed by SIGKILL*")
