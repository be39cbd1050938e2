"""The exact screen of `weir top` at several sizes, and the effect of keys."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.text import Text

from broker.tools.top.screen import MAX_FILTER, View, bounded, cell, draw, draw_all, press, share_out
from broker.tools.top.snapshot import MAX_NAME, InvalidSnapshotError, Snapshot, snapshot_of
from broker.tools.top.tables import Column, bar, digits, milliseconds, rate, share, size


def throttled(client_id: str = "greedy", **fields: Any) -> dict[str, Any]:
    return {
        "client_id": client_id,
        "principal": "User:alice",
        "address": "10.0.0.7",
        "quota_type": "produce",
        "entity": {"user": None, "client-id": client_id},
        "observed": 2_100_000.0,
        "bound": 1_000_000,
        "throttle_ms": 1100,
        "remaining_ms": 640,
        "times": 12,
        "obeys": False,
        "tags": [],
    } | fields


def usage(client_id: str, bytes_in: float) -> dict[str, Any]:
    return {
        "client_id": client_id,
        "user": "alice",
        "bytes_in_per_s": bytes_in,
        "bytes_out_per_s": 1000.0,
        "requests_per_s": 12.5,
        "request_percentage": 1.25,
        "connections": 2,
        "limited_by": ["producer_byte_rate"],
    }


def topics() -> dict[str, Any]:
    return {
        "overview": {
            "at": "2026-11-21T14:03:22.500Z",
            "software_version": "0.1.0",
            "bootstrap": ["127.0.0.1:9092"],
            "metrics": {
                "bytes_in_per_s": 1.0,
                "bytes_out_per_s": 1.0,
                "requests_per_s": 1.0,
                "connections": 17,
                "thread_idle": 0.393,
                "processor_idle": 0.983,
                "handler_idle": 0.41,
                "acceptor_blocked": 0.0,
            },
            "sample": {"bytes_in": 2_100_000.0, "bytes_out": 800_500.0, "requests": 1234.4},
        },
        "throttled": {"items": [throttled()], "total": 1},
        "quotas": {
            "items": [
                {
                    "entity": {"user": None, "client-id": "greedy"},
                    "shadow": True,
                    "limits": {
                        "producer_byte_rate": {
                            "value": 1048576,
                            "observed": 1_016_000.0,
                            "used": 0.969,
                            "throttled": 3,
                        },
                        "request_percentage": {"value": 50, "observed": None, "used": None, "throttled": 0},
                    },
                }
            ]
        },
        "usage": {"items": [usage("polite", 10_000.0), usage("greedy", 2_100_000.0)]},
    }


def snapshot(**changed: Any) -> Snapshot:
    return snapshot_of(topics() | changed)


def lines_of(lines: list[Text]) -> list[str]:
    return [line.plain.rstrip() for line in lines]


KEYS = "q quit  Tab table  < > sort  r reverse  / filter  Space pause  Up Down scroll"


def test_in_132_columns_nothing_is_left_out() -> None:
    shown = lines_of(draw(snapshot(), View(), 132, 24).lines)
    assert shown[0] == "weir 0.1.0  127.0.0.1:9092" + " " * 94 + "14:03:22 UTC"
    assert shown[1:5] == [
        "In 2.1 MB/s   Out 800 kB/s   Requests 1 234/s   Connections 17   Throttled 1",
        "Idle: thread 39 %   network 98 %   handlers 41 %   acceptor blocked 0 %",
        "",
        "Throttled now",
    ]
    # Each screen line is split in two, because it is longer than a line of this file.
    assert [(line[:73].rstrip(), line[73:].strip()) for line in shown[5:16]] == [
        (
            "CLIENT        PRINCIPAL   ADDRESS          QUOTA    RULE",
            "USED / LIMIT v      DELAY       LEFT    TIMES  OBEYS",
        ),
        (
            "greedy        User:alice  10.0.0.7         produce  default user, cl…",
            "2.1 MB/s / 1 MB/s   1 100 ms     640 ms       12  no",
        ),
        ("", ""),
        ("Rules nearest to their limits", ""),
        (
            "RULE                                           LIMIT",
            "USED / LIMIT                USED v   MUTED  MODE",
        ),
        (
            "default user, client-id greedy                 producer_byte_rate",
            "992 KiB/s / 1 MiB/s  [##########]    97 %       3  shadow",
        ),
        ("", ""),
        ("Busiest clients", ""),
        (
            "CLIENT                           USER                      IN v        OU",
            "T    REQ/S     TIME    CONNS  LIMITED BY",
        ),
        (
            "greedy                           alice                 2.1 MB/s     1 kB/",
            "s     12.5   1.25 %        2  producer_byte_rate",
        ),
        (
            "polite                           alice                  10 kB/s     1 kB/",
            "s     12.5   1.25 %        2  producer_byte_rate",
        ),
    ]
    assert shown[16:] == [*[""] * 7, KEYS]


def test_in_80_columns_what_matters_is_left() -> None:
    shown = lines_of(draw(snapshot(), View(), 80, 17).lines)
    assert shown == [
        "weir 0.1.0  127.0.0.1:9092                                          14:03:22 UTC",
        "In 2.1 MB/s   Out 800 kB/s   Requests 1 234/s   Connections 17   Throttled 1",
        "Idle: thread 39 %   network 98 %   handlers 41 %   acceptor blocked 0 %",
        "",
        "Throttled now",
        "CLIENT       QUOTA    RULE                     USED / LIMIT v       LEFT  OBEYS",
        "greedy       produce  default user, c…      2.1 MB/s / 1 MB/s     640 ms  no",
        "",
        "Rules nearest to their limits",
        "RULE             LIMIT                              USED / LIMIT  USED v   MUTED",
        "default user, …  producer_byte_rate          992 KiB/s / 1 MiB/s    97 %       3",
        "",
        "Busiest clients",
        "CLIENT            USER               IN v        OUT    REQ/S     TIME    CONNS",
        "greedy            alice          2.1 MB/s     1 kB/s     12.5   1.25 %        2",
        "polite            alice           10 kB/s     1 kB/s     12.5   1.25 %        2",
        KEYS,
    ]


def test_on_a_screen_too_small_for_three_tables_the_focused_one_is_shown() -> None:
    shown = lines_of(draw(snapshot(), View(focus=2), 40, 8).lines)
    assert shown == [
        "weir 0.1.0  127.0.0.1:9092  14:03:22 UTC",
        "In 2.1 MB/s   Out 800 kB/s   Requests 1…",
        "Idle: thread 39 %   network 98 %   hand…",
        "",
        "Busiest clients (1 of 2)",
        "CLIENT                   IN v        OUT",
        "greedy               2.1 MB/s     1 kB/s",
        "q quit  Tab table  < > sort  r reverse …",
    ]


@pytest.mark.parametrize("height", [1, 2, 4, 5, 8, 15, 16, 50])
@pytest.mark.parametrize("width", [1, 2, 9, 10, 20, 33, 80, 81, 250])
def test_no_line_is_longer_than_the_screen_and_there_are_as_many_as_it_has(width: int, height: int) -> None:
    hostile = throttled("顧客\x1b[31m\u202e" * 40, principal="\x07" * 300, address="::" * 40)
    many = snapshot(throttled={"items": [hostile] * 70, "total": 900})
    for view in (View(), View(focus=1, filter="顧客", typing=True), View(tops=(500, 500, 500))):
        for trouble in (None, "12 s old; no console responds"):
            lines = draw(many, view, width, height, trouble).lines
            assert len(lines) == height
            assert all(line.cell_len <= width for line in lines)


def test_nothing_of_a_hostile_name_reaches_the_screen_as_it_is() -> None:
    name = "\x1b]0;owned\x07\x1b[2J\x9b\u202e\r\n"
    row = throttled(name, principal=name, address=name, entity={}, tags=[{"name": name, "value": name}])
    hostile = snapshot(throttled={"items": [row], "total": 1}, usage={"items": [usage(name, 1.0)]})
    view = View(filter="\x1b")
    text = "".join(
        line.plain for line in [*draw(hostile, view, 200, 40).lines, *draw_all(hostile, view, 200, 9)]
    )
    assert r"\x1b]0;owned" in text
    assert text.isprintable()


def test_stale_figures_say_so_and_stay() -> None:
    lines = draw(snapshot(), View(), 80, 24, "12 s old; no console responds at there").lines
    assert lines[3].plain.rstrip() == "STALE: 12 s old; no console responds at there"
    assert lines[3].style == "urgent"
    assert "greedy" in lines[7].plain


@pytest.mark.parametrize(("idle", "style"), [(0.6, ""), (0.59, "watch"), (0.2, "watch"), (0.19, "urgent")])
def test_idle_threads_are_healthy_to_be_watched_or_urgent(idle: float, style: str) -> None:
    overview = topics()["overview"]
    metrics = overview["metrics"] | {"handler_idle": idle}
    line = draw(snapshot(overview=overview | {"metrics": metrics}), View(), 80, 24).lines[2]
    at = line.plain.index(share(idle), len("Idle: network 98 %"))
    styles = [span.style for span in line.spans if span.start == at]
    assert styles == ([style] if style else [])


def test_sums_of_several_gateways_say_so_and_their_connections_name_the_gateway() -> None:
    overview = topics()["overview"]
    alone = snapshot(overview=overview | {"gateways": {"gateways": 1, "connections": 17}})
    assert lines_of(draw_all(alone, View(), 132, 5))[1].startswith("In 2.1 MB/s")
    several = snapshot(
        overview=overview | {"gateways": {"gateways": 3, "connections": 4_711}},
        throttled={"items": [throttled(gateway="2-77aa")], "total": 9},
    )
    lines = lines_of(draw_all(several, View(), 180, 5))
    assert lines[1].startswith("3 gateways: In 2.1 MB/s")
    assert "Connections 4 711   Throttled 9" in lines[1]
    assert any("greedy at 2-77aa" in line for line in lines)


def test_a_broker_where_nothing_happens_says_so() -> None:
    empty = {"items": [], "total": 0}
    overview = topics()["overview"]
    metrics = dict.fromkeys(overview["metrics"]) | {"connections": 0, "bytes_in_per_s": 0}
    quiet = snapshot(
        overview=overview | {"sample": None, "metrics": metrics}, throttled=empty, quotas=empty, usage=empty
    )
    shown = lines_of(draw(quiet, View(), 80, 24).lines)
    assert shown[1] == "In 0 B/s   Out 0 B/s   Requests 0/s   Connections 0   Throttled 0"
    assert shown[2] == "Idle: thread -   network -   handlers -   acceptor blocked -"
    assert {"No connection is throttled.", "No rule applies.", "No client is connected."} <= set(shown)


def test_the_title_counts_the_rows_that_do_not_fit() -> None:
    many = snapshot(throttled={"items": [throttled(f"c{number}") for number in range(9)], "total": 900})
    assert "Throttled now (4 of 900)" in lines_of(draw(many, View(), 80, 20).lines)
    assert "Throttled now (4 of 9)" in lines_of(draw(many, View(filter="c"), 80, 20).lines)


@pytest.mark.parametrize(
    ("columns", "wants", "given"),
    [
        (10, [9, 9, 9], [0, 8, 0]),  # too few lines for a row of each: only the focused table
        (11, [9, 9, 9], [1, 1, 1]),
        (12, [9, 9, 9], [1, 2, 1]),  # the spare row belongs to the focused table
        (20, [1, 50, 1], [1, 10, 1]),
        (40, [1, 2, 3], [1, 2, 3]),
        (2, [1, 1, 1], [0, 0, 0]),
    ],
)
def test_rows_are_shared_out(columns: int, wants: list[int], given: list[int]) -> None:
    assert share_out(columns, wants, 1) == given


def pressed(*keys: str, view: View | None = None) -> View:
    view = view or View()
    for key in keys:
        after = press(view, key)
        assert after is not None
        view = after
    return view


def test_the_focus_goes_round() -> None:
    assert [pressed(*["tab"] * times).focus for times in range(4)] == [0, 1, 2, 0]
    assert pressed("backtab").focus == 2


def test_arrows_choose_what_the_table_in_focus_is_sorted_by() -> None:
    titles = [pressed(*["right"] * times).sorted_by(0).title for times in range(5)]
    assert titles == ["USED / LIMIT", "DELAY", "LEFT", "TIMES", "USED / LIMIT"]
    assert pressed("<").sorted_by(0).title == "TIMES"
    assert pressed("tab", "right").sorted_by(0).title == "USED / LIMIT"


def test_rows_are_sorted_by_the_chosen_column_and_reversed() -> None:
    rows = [throttled("a", times=2), throttled("b", times=9), throttled("c", times=5)]
    three = snapshot(throttled={"items": rows, "total": 3})

    def order(view: View) -> str:
        return "".join(line.plain[0] for line in draw(three, view, 132, 30).lines[6:9])

    assert order(pressed("left")) == "bca"
    assert order(pressed("left", "r")) == "acb"
    assert "TIMES ^" in draw(three, pressed("left", "r"), 132, 30).lines[5].plain


def test_the_console_is_asked_to_sort_the_busiest_clients_before_it_cuts_them_off() -> None:
    assert View().server_sort(2) == {"sort": "bytes_in", "order": "desc"}
    assert pressed("tab", "tab", "right", "right", "r").server_sort(2) == {"sort": "requests", "order": "asc"}
    assert View().server_sort(0) == {}


def test_typing_filters_every_table_until_it_is_taken_back() -> None:
    view = pressed("/", "P", "o", "q", "backspace", "l")
    assert (view.filter, view.typing) == ("Pol", True)
    shown = lines_of(draw(snapshot(), view, 80, 24).lines)
    assert shown[-1] == "/Pol_"
    assert shown[6] == "No match." and "polite" in "".join(shown) and "greedy" not in "".join(shown)
    kept = pressed("enter", view=view)
    assert (kept.filter, kept.typing) == ("Pol", False)
    assert pressed("escape", view=kept).filter == pressed("escape", view=view).filter == ""


def test_a_filter_has_an_end() -> None:
    assert len(pressed("/", *"x" * (MAX_FILTER + 1)).filter) == MAX_FILTER
    assert len(pressed("/", *"x" * (MAX_FILTER - 1)).filter) == MAX_FILTER - 1


def test_scrolling_stops_at_the_ends() -> None:
    many = snapshot(throttled={"items": [throttled(f"c{number}") for number in range(30)], "total": 30})
    view = pressed(*["pagedown"] * 9)
    screen = draw(many, view, 80, 16)
    assert screen.lasts == (29, 0, 1)
    assert bounded(view, screen.lasts).tops == (29, 0, 0)
    assert pressed("up", view=bounded(view, screen.lasts)).tops == (28, 0, 0)
    assert pressed("up").tops == pressed("down", "home").tops == (0, 0, 0)
    # Every order has a first column.
    assert pressed("down", "right").tops == pressed("down", "/", "x").tops == (0, 0, 0)


def test_keys_pause_and_leave_and_the_rest_does_nothing() -> None:
    assert pressed("p").paused and not pressed(" ", "p").paused
    assert "paused" in draw(snapshot(), pressed("p"), 80, 24).lines[0].plain
    assert press(View(), "q") is None
    assert pressed("/", "q").filter == "q"
    assert pressed("x", "enter", "backspace") == View()


@pytest.mark.parametrize(
    ("topic", "value"),
    [
        ("throttled", {"items": [], "total": "many"}),
        ("throttled", {"items": [throttled(client_id=7)], "total": 1}),
        ("throttled", {"items": [throttled(remaining_ms=float("inf"))], "total": 1}),
        ("quotas", []),
        ("usage", {"items": [{}]}),
        ("overview", None),
    ],
)
def test_an_invalid_snapshot_is_refused(topic: str, value: Any) -> None:
    with pytest.raises(InvalidSnapshotError):
        snapshot(**{topic: value})


def test_where_a_callback_decides_its_tags_stand_for_the_rule() -> None:
    row = throttled(entity={}, tags=[{"name": "team", "value": "blue"}])
    assert snapshot(throttled={"items": [row], "total": 1}).throttled.items[0].rule == "team=blue"


@pytest.mark.parametrize(("node", "text"), [(None, "team=blue"), (2, "team=blue at node 2")])
def test_a_limit_that_holds_at_each_upstream_node_names_it(node: int | None, text: str) -> None:
    row = throttled(entity={}, tags=[{"name": "team", "value": "blue"}], upstream_node=node)
    assert snapshot(throttled={"items": [row], "total": 1}).throttled.items[0].rule == text


def test_plain_text_has_every_table_and_no_keys() -> None:
    shown = lines_of(draw_all(snapshot(), View(), 80, 1))
    assert "Busiest clients (1 of 2)" in shown and KEYS not in shown


def test_figures_have_three_digits_and_a_unit() -> None:
    assert [digits(value) for value in (0, 0.026, 1.05, 9.994, 9.996, 31.52, 99.96, 998.7, 12345)] == [
        *("0", "0.03", "1.05", "9.99", "10", "31.5", "100", "999", "12 345")
    ]
    assert [size(value) for value in (0, 999, 1000, 999_499, 999_500, 2.5e15)] == [
        *("0 B", "999 B", "1 kB", "999 kB", "1 MB", "2.5 PB")
    ]
    assert rate("consumer_byte_rate", 1_572_864.0, 1_048_576) == "1.5 MiB/s"
    assert rate("request_percentage", 12.5) == "12.5 %"
    assert rate("controller_mutation_rate", None) == "-"
    assert milliseconds(-3) == "0 ms"
    assert [bar(used) for used in (-1, 0, 0.449, 0.5, 1, 7)] == [
        *("[          ]", "[          ]", "[####      ]", "[#####     ]", "[##########]", "[##########]")
    ]


LEFT: Column[str] = Column("", str, 0, 0)


@pytest.mark.parametrize(
    ("text", "columns", "expected"),
    [
        ("abcd", 5, "abcd "),
        ("abcd", 4, "abcd"),
        ("abcd", 3, "ab…"),
        ("abcd", 1, "…"),
        ("", 2, "  "),
        ("顧客x", 5, "顧客x"),
        ("顧客x", 4, "顧 …"),
        ("ab\x1bcd", 6, "ab\\x1…"),
        ("ab\x1bc", 7, r"ab\x1bc"),
    ],
)
def test_a_cell_is_as_wide_as_it_is_to_be(text: str, columns: int, expected: str) -> None:
    assert cell(text, columns, LEFT).plain == expected


def test_figures_stand_on_the_right() -> None:
    assert cell("12", 4, Column("", str, 0, 0, align="right")).plain == "  12"


@given(st.text(), st.integers(1, 40))
def test_no_text_at_all_gets_out_of_its_cell(text: str, columns: int) -> None:
    made = cell(text, columns, LEFT).plain
    assert cell_len(made) == columns
    assert made.isprintable()


def test_of_a_long_name_no_more_is_kept_than_a_screen_can_show() -> None:
    long = throttled("x" * 30_000, entity={"user": "y" * 30_000})
    (row,) = snapshot(throttled={"items": [long], "total": 1}).throttled.items
    assert (len(row.client_id), len(row.rule)) == (MAX_NAME, len("user ") + MAX_NAME)
