"""Loading of `client.quota.callback.class`, and errors with key, value and reason."""

import sys
from pathlib import Path

import pytest

from broker.common.errors import ConfigError
from broker.quotas.guarded_callback import CALLBACK_KEY, load_callback
from tests.quotas.callbacks import Scripted

HERE = "tests.quotas.callbacks"


@pytest.mark.parametrize("name", [f"{HERE}:Scripted", f"{HERE}.Scripted"])
def test_a_class_is_made_and_configured_once(name: str) -> None:
    callback = load_callback(name, {"node.id": "7"})
    assert isinstance(callback, Scripted)
    assert callback.calls == [("configure", {"node.id": "7"})]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "expected package.module:Class or package.module.Class"),
        ("Alone", "expected package.module:Class or package.module.Class"),
        (f"{HERE}:", "expected package.module:Class or package.module.Class"),
        (f"{HERE}:Scripted()", "expected package.module:Class or package.module.Class"),
        ("../evil:Class", "expected package.module:Class or package.module.Class"),
        (
            "nowhere:Class",
            "cannot import module nowhere: ModuleNotFoundError: No module named 'nowhere'",
        ),
        (f"{HERE}:Missing", f"module {HERE} has no Missing"),
        (f"{HERE}:Scripted.Missing", f"module {HERE} has no Scripted.Missing"),
        (f"{HERE}:NO_CLASS", "NO_CLASS is not a class"),
        (f"{HERE}:Nothing", "missing method configure"),
        (f"{HERE}:RaisesWhenMade", "cannot create an instance: RuntimeError: no licence found"),
        (f"{HERE}:RaisesWhenConfigured", "configure() raised KeyError: 'quota.file'"),
        (f"{HERE}:Asynchronous", "method quota_limit is async, expected a synchronous method"),
        (
            f"{HERE}:TakesOther",
            "method quota_metric_tags must accept 3 arguments: too many positional arguments",
        ),
    ],
)
def test_a_wrong_callback_is_reported_with_key_value_and_reason(name: str, reason: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load_callback(name, {})
    assert str(refused.value) == f"{CALLBACK_KEY}={name!r} is not allowed: {reason}"


def test_a_class_that_inherits_the_protocol_and_forgets_a_method_cannot_be_made() -> None:
    with pytest.raises(ConfigError, match=r"cannot create an instance: TypeError: .*Unfinished.*close"):
        load_callback(f"{HERE}:Unfinished", {})


def test_a_module_that_fails_to_import_is_reported_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "half_written.py").write_text("raise ValueError('half a file')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match="half_written: ValueError: half a file"):
        load_callback("half_written:Class", {})
    assert "half_written" not in sys.modules
