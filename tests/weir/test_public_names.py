"""What `import weir` gives to a class of the operator's, in a checkout as in a wheel."""

import subprocess
import sys

import pytest

import weir
from broker.common.version import VERSION
from broker.quotas import callback
from broker.telemetry.receiver import PushedMetrics, TelemetryReceiver
from tests.conventions.sources import ROOT


def test_each_public_name_is_what_the_broker_uses() -> None:
    assert weir.__version__ == VERSION
    assert weir.QuotaCallback is callback.ClientQuotaCallback
    of_callbacks = [name for name in callback.__all__ if name != "ClientQuotaCallback"]
    assert all(getattr(weir, name) is getattr(callback, name) for name in of_callbacks)
    assert weir.TelemetryReceiver is TelemetryReceiver
    assert weir.PushedMetrics is PushedMetrics
    others = {"__version__", "QuotaCallback", "TelemetryReceiver", "PushedMetrics"}
    assert set(weir.__all__) == others | set(of_callbacks)


def test_there_are_no_other_names() -> None:
    with pytest.raises(AttributeError, match="module weir has no attribute Broker"):
        weir.Broker  # type: ignore[attr-defined]  # noqa: B018


def test_the_import_alone_imports_nothing_of_the_broker() -> None:
    """`weir` decides first whether it runs the sources."""
    program = "import sys, weir; print([name for name in sys.modules if name.startswith('broker')])"
    assert python("-c", program) == "[]\n"


def test_it_can_be_run_as_a_module() -> None:
    assert python("-m", "weir", "--version").startswith(f"weir, version {VERSION}, ")


def python(*arguments: str) -> str:
    return subprocess.run(
        (sys.executable, *arguments), capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout
