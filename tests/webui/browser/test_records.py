"""Records on their page: read by offset and time, in every format, on from where it stopped, and one
produced.
"""

import csv
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.records.compression import Codec
from tests.webui.browser.conftest import ServedConsole, Watched, watched
from tests.webui.fakes import console_config
from tests.webui.log_world import WALL_MS, LoggedBroker, LogWorld

SCRIPT = "<script>document.title = 'hacked'</script><img src=x onerror=alert(1)>"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LogWorld]:
    world = LogWorld(tmp_path)
    world.topic("orders", 2)
    yield world
    world.close()


@pytest.fixture
def broker(world: LogWorld) -> LoggedBroker:
    return LoggedBroker(world)


def rows(page: Any) -> Any:
    return page.locator("#records > table > tbody > tr:not(.panel)")


def read(page: Any) -> None:
    page.get_by_role("button", name="Read records").click()


def test_the_latest_records_of_a_topic_are_read_and_opened(
    page: Watched, expect: Any, world: LogWorld
) -> None:
    world.append(
        "orders",
        *((f"k{n}", f'{{"n": {n}, "big": 12345678901234567890}}') for n in range(60)),
        codec=Codec.ZSTD,
    )
    page.sign_in()
    opened = page.go("/topics/orders?start=latest")
    expect(rows(opened)).to_have_count(50)
    expect(rows(opened).first).to_contain_text("k59")
    expect(opened.locator("#outcome")).to_contain_text("50 records, newest first; the search reached the end")
    opener = rows(opened).first.get_by_role("button")
    opener.press("Enter")
    content = opened.get_by_label("Value", exact=True)
    expect(content).to_have_text('{\n  "n": 59,\n  "big": 12345678901234567890\n}')
    expect(opened.locator(".details")).to_contain_text("JSON, 38 B")
    opened.get_by_label("Show keys and values as").select_option("hex")
    expect(content).to_contain_text("000000  7b 22 6e 22 3a 20 35 39")
    opener.press("Enter")
    expect(content).to_have_count(0)


def test_a_reading_begins_at_an_offset_or_a_time_and_goes_on(
    page: Watched, expect: Any, world: LogWorld
) -> None:
    for partition in range(2):
        world.append(
            "orders", *((None, f"{partition} {n}") for n in range(40)), partition=partition, step_ms=1_000
        )
    page.sign_in()
    opened = page.go("/topics/orders")
    opened.get_by_label("Partitions").fill("0-1")
    opened.get_by_label("From").select_option("offset")
    opened.get_by_label("Offset", exact=True).fill("25")
    opened.get_by_label("Records", exact=True).select_option("20")
    read(opened)
    expect(rows(opened)).to_have_count(20)
    expect(opened.locator("#more")).to_contain_text(
        "Stopped in partition 0 at 35 of 40, partition 1 at 35 of 40."
    )
    opened.get_by_role("button", name="Read on").click()
    expect(rows(opened)).to_have_count(30)
    expect(opened.locator("#more")).to_be_hidden()
    opened.get_by_label("From").select_option("time")
    moment = opened.evaluate(
        "ms => new Date(ms - new Date(ms).getTimezoneOffset() * 60000).toISOString().slice(0, -1)",
        WALL_MS + 38_000,
    )
    opened.get_by_label("Time", exact=True).fill(moment)
    read(opened)
    expect(rows(opened)).to_have_count(4)
    expect(opened).to_have_url(re.compile(r"/topics/orders\?.*start=time"))
    opened.reload()
    expect(rows(opened)).to_have_count(4)
    opened.get_by_label("Text", exact=True).fill("1 39")
    read(opened)
    expect(rows(opened)).to_have_count(1)


def test_hostile_bytes_are_only_text(page: Watched, expect: Any, world: LogWorld) -> None:
    world.append("orders", (SCRIPT, SCRIPT), headers=((SCRIPT, b"\xff\xfe"), ("\u202eevil", None)))
    world.append("orders", (b"\x00\xff", "a\u202eb\x07"), (None, None), ("", "x" * 20_000))
    page.sign_in()
    opened = page.go("/topics/orders?start=earliest")
    expect(rows(opened)).to_have_count(4)
    expect(rows(opened).nth(0)).to_contain_text("<script>document.title")
    expect(rows(opened).nth(1)).to_contain_text("00 ff")
    expect(rows(opened).nth(1)).to_contain_text("aU+202EbU+0007")
    expect(rows(opened).nth(2)).to_contain_text("null")
    rows(opened).nth(0).get_by_role("button").click()
    expect(opened.get_by_label("Value", exact=True)).to_have_text(SCRIPT)
    expect(opened.get_by_role("region", name="Headers")).to_contain_text("U+202Eevil")
    rows(opened).nth(3).get_by_role("button").click()
    expect(opened.locator(".details")).to_contain_text("Only the beginning of 20\u202f000 bytes is shown.")
    with opened.expect_download() as download:
        opened.get_by_role("link", name="Download the value").click()
    assert download.value.path().read_bytes() == b"x" * 20_000
    assert download.value.suggested_filename == "orders-0-3-value.bin"
    expect(opened).to_have_title("orders · Weir")


@pytest.mark.parametrize(
    ("field", "typed", "words"),
    [
        ("Partitions", "x", "x is no partition"),
        ("Partitions", "4-2", "4-2 is no range"),
        ("Partitions", "7", "has no partition 7"),
        ("Offset", "-1", "Enter an offset"),
        ("Offset", "", "Enter an offset"),
        ("Condition", "$.a ~", "The condition is not understood from character 5 on."),
        ("Condition", "total > 5", "write $.total for a field of the value's JSON"),
    ],
)
def test_wrong_input_is_reported_and_kept(
    page: Watched, expect: Any, field: str, typed: str, words: str
) -> None:
    page.sign_in()
    opened = page.go("/topics/orders")
    opened.get_by_label("From").select_option("offset")
    opened.get_by_label("Offset", exact=True).fill("0")
    opened.get_by_label("Text", exact=True).fill("kept")
    opened.get_by_label(field, exact=True).fill(typed)
    read(opened)
    expect(opened.locator("#question").get_by_role("alert")).to_contain_text(words)
    expect(opened.get_by_label(field, exact=True)).to_have_value(typed)
    expect(opened.get_by_label("Text", exact=True)).to_have_value("kept")


def test_a_schema_decodes_and_a_wrong_one_is_reported(page: Watched, expect: Any, world: LogWorld) -> None:
    world.append("orders", (None, b"\x54"))
    page.sign_in()
    opened = page.go("/topics/orders?start=latest")
    opened.get_by_text("Schemas").click()
    values = opened.get_by_role("group", name="Values")
    values.get_by_label("Decode with").select_option("avro")
    values.get_by_label("Schema", exact=True).fill('"lon"')
    read(opened)
    expect(opened.locator("#question").get_by_role("alert")).to_contain_text("unknown type lon")
    values.get_by_label("Schema", exact=True).fill('"long"')
    read(opened)
    expect(rows(opened).first).to_contain_text("42")


def test_a_record_is_produced_and_shown(page: Watched, expect: Any, world: LogWorld) -> None:
    page.sign_in("editor-token")
    opened = page.go("/topics/orders?start=latest")
    opened.locator("body").press("n")
    opened.locator("form.editor").get_by_label("Key", exact=True).fill("alice")
    opened.get_by_label("Format of the value").select_option("json")
    opened.get_by_label("Value", exact=True).fill("{")
    opened.get_by_label("Headers").fill("trace: 4711")
    opened.get_by_role("button", name="Produce record").click()
    alert = opened.locator(".editor").get_by_role("alert")
    expect(alert).to_contain_text("not valid JSON: expected property name")
    expect(opened.get_by_label("Headers")).to_have_value("trace: 4711")
    opened.get_by_label("Value", exact=True).fill('{"a": 1}')
    opened.get_by_role("button", name="Produce record").click()
    expect(opened.locator(".toast")).to_contain_text("Produced to partition")
    expect(rows(opened)).to_have_count(1)
    expect(rows(opened)).to_contain_text("alice")
    opened.get_by_label("null (a tombstone)").check()
    opened.get_by_role("button", name="Produce record").click()
    expect(rows(opened)).to_contain_text("null")


def test_a_lost_connection_loses_nothing_that_was_typed(page: Watched, expect: Any) -> None:
    page.sign_in()
    opened = page.go("/topics/orders?start=latest")
    opened.locator("body").press("n")
    opened.get_by_label("Value", exact=True).fill("long typed")
    opened.route("**/records", lambda route: route.abort())
    opened.get_by_role("button", name="Produce record").click()
    expect(opened.locator(".editor").get_by_role("alert")).to_contain_text("The broker does not respond.")
    expect(opened.get_by_label("Value", exact=True)).to_have_value("long typed")
    opened.unroute("**/records")
    opened.get_by_role("button", name="Produce record").click()
    expect(opened.locator(".toast")).to_contain_text("Produced")


def test_a_viewer_is_told_why_not(browser: Any, broker: LoggedBroker, expect: Any) -> None:
    settings = console_config(browse_role="editor")
    with ServedConsole(broker, settings) as served, watched(browser, served) as page:
        page.sign_in("viewer-token")
        opened = page.go("/topics/orders?start=latest")
        expect(opened.locator("#refused")).to_contain_text("Your role may not read records")
        expect(opened.locator("#refused")).to_contain_text("requires the role editor; you are logged in as v")
        expect(opened.locator("#question")).to_have_count(0)
        expect(opened.locator("#produce")).to_have_attribute("aria-disabled", "true")


def test_no_record_is_read_before_somebody_asks(page: Watched, expect: Any, world: LogWorld) -> None:
    world.append("orders", (None, "1"))
    page.sign_in()
    opened = page.go("/topics/orders")
    expect(opened.locator("#records")).to_contain_text("Nothing read yet")
    assert world.committer.commits == 0, "nothing is in the audit trail"
    read(opened)
    expect(rows(opened)).to_have_count(1)
    opened.reload()
    expect(rows(opened)).to_have_count(1)


def test_the_old_address_leads_to_the_topic(page: Watched, expect: Any, world: LogWorld) -> None:
    world.append("orders", ("k", "1"), ("l", "2"))
    page.sign_in()
    opened = page.go("/records?topic=orders&key=l")
    expect(opened).to_have_url(re.compile(r"/topics/orders\?start=latest&key=l$"))
    expect(rows(opened)).to_have_count(1)
    expect(page.go("/records")).to_have_url(re.compile("/topics$"))


def test_a_condition_on_the_json_selects_records(page: Watched, expect: Any, world: LogWorld) -> None:
    world.append("orders", *((f"k{n}", f'{{"n": {n}, "tags": ["t{n % 3}"]}}') for n in range(30)))
    page.sign_in()
    opened = page.go("/topics/orders")
    opened.get_by_label("From").select_option("earliest")
    opened.get_by_label("Condition").fill('$.n >= 20 and $.tags[*] == "t0"')
    read(opened)
    expect(rows(opened)).to_have_count(3)
    expect(rows(opened).first).to_contain_text("k21")
    opened.reload()
    expect(rows(opened)).to_have_count(3)


def test_records_are_followed_as_they_arrive_until_it_is_stopped(
    page: Watched, expect: Any, world: LogWorld
) -> None:
    world.append("orders", (None, "old"))
    page.sign_in()
    opened = page.go("/topics/orders")
    opened.get_by_label("From").select_option("live")
    opened.get_by_role("button", name="Follow").click()
    expect(opened.locator("#outcome")).to_have_text("Live: 0 records, newest first")
    world.append("orders", (None, "first"), (None, "second"))
    expect(rows(opened)).to_have_count(2)
    expect(rows(opened).first).to_contain_text("second")
    world.append("orders", (None, "third"), partition=1)
    expect(rows(opened).first).to_contain_text("third")
    opened.get_by_role("button", name="Stop").click()
    expect(opened.locator("#outcome")).to_have_text("3 records, newest first; stopped")
    expect(opened.get_by_role("button", name="Follow")).to_be_visible()


def test_records_are_exported(page: Watched, expect: Any, world: LogWorld) -> None:
    world.append("orders", ("=cmd", 'say "a", b'), (b"\xff", "x" * 17_000), ("k", None))
    world.append("orders", *((None, str(n)) for n in range(100)), partition=1)
    page.sign_in()
    opened = page.go("/topics/orders?start=earliest&limit=20")
    expect(rows(opened)).to_have_count(20)
    found = {}
    for kind in ("ndjson", "csv"):
        opened.locator("#export > summary").click()
        with opened.expect_download() as download:
            opened.locator(f"[data-export={kind}]").click()
        assert download.value.suggested_filename == f"orders.{kind}"
        found[kind] = download.value.path().read_bytes().decode()
    expect(opened.locator(".toast")).to_contain_text("Exported 103 records. 1 record cut: see is_truncated.")
    lines = [json.loads(line) for line in found["ndjson"].splitlines()]
    assert len(lines) == 103
    first, second, third = (each for each in lines if each["partition"] == 0)
    assert (first["key"], first["value"], first["is_truncated"]) == ("=cmd", 'say "a", b', False)
    assert (second["key"], len(second["value"]), second["is_truncated"]) == ({"base64": "/w=="}, 16_384, True)
    assert (third["key"], third["value"]) == ("k", None)
    cells = list(csv.reader(found["csv"].splitlines()))
    assert cells[0] == ["partition", "offset", "timestamp", "key", "value", "headers", "is_truncated"]
    assert ["0", "0", str(first["timestamp"]), "'=cmd", 'say "a", b', "[]", "false"] in cells


def test_a_record_is_produced_again(page: Watched, expect: Any, world: LogWorld) -> None:
    world.append("orders", ("k", "value"), headers=(("trace", b"1"),))
    world.append("orders", (b"\x00\xff", None), headers=(("odd: name", b"\xff"),))
    world.append("orders", ("long", "x" * 20_000))
    page.sign_in("editor-token")
    opened = page.go("/topics/orders?start=earliest")

    def again(number: int) -> Any:
        rows(opened).nth(number).get_by_role("button").click()
        opened.get_by_role("button", name="Produce again").click()
        return opened.locator("form.editor")

    again(0).get_by_role("button", name="Produce record").click()
    expect(opened.locator(".toast")).to_contain_text("Produced to partition 0, offset 3.")
    opened.goto(opened.url.partition("?")[0] + "?start=earliest")
    editor = again(1)
    expect(editor.get_by_label("Headers")).to_be_disabled()
    editor.get_by_role("button", name="Produce record").click()
    expect(opened.locator(".toast")).to_contain_text("Produced to partition 0, offset 4.")
    opened.goto(opened.url.partition("?")[0] + "?start=earliest")
    editor = again(2)
    expect(editor.get_by_role("alert")).to_contain_text("cannot be produced again here")
    expect(editor.get_by_role("button", name="Produce record")).to_be_disabled()
    opened.goto(opened.url.partition("?")[0] + "?start=earliest")
    expect(rows(opened)).to_have_count(5)
    expect(rows(opened).nth(4)).to_contain_text("00 ff")
    expect(rows(opened).nth(4)).to_contain_text("null")
    rows(opened).nth(4).get_by_role("button").click()
    expect(opened.get_by_role("region", name="Headers")).to_contain_text("odd: name")
