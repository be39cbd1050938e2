"""`make audit`: which versions are looked up, what counts as an answer, and the exit status."""

from typing import Any

from requirements.audit import locked, report, vulnerabilities

KNOWN: dict[str, Any] = {"id": "PYSEC-1", "aliases": ["CVE-1"], "fixed_in": ["1.1", "2.0"], "withdrawn": None}


def page(version: str, *known: dict[str, Any]) -> dict[str, Any]:
    return {"info": {"version": version}, "vulnerabilities": list(known)}


def test_each_locked_version_is_looked_up_once() -> None:
    runtime = "# a comment\nTrio==0.35.0 \\\n    --hash=sha256:00\nidna==3.1 ; python_version < '3.12' \\\n"
    assert locked([runtime, "trio==0.35.0 \\\n", "idna==3.2\n"]) == [
        ("idna", "3.1"),
        ("idna", "3.2"),
        ("trio", "0.35.0"),
    ]


def test_the_page_of_the_version_is_the_answer() -> None:
    pages = {"a/1.0/json": page("1.0", KNOWN), "a/json": page("2.0")}
    assert vulnerabilities(pages.get, "a", "1.0") == [KNOWN]


def test_without_it_the_page_of_the_newest_version_answers_for_that_version_only() -> None:
    pages = {"a/json": page("2.0", KNOWN)}
    assert vulnerabilities(pages.get, "a", "2.0") == [KNOWN]
    assert vulnerabilities(pages.get, "a", "1.0") is None


def test_a_page_that_does_not_speak_of_vulnerabilities_is_no_answer() -> None:
    pages = {"a/1.0/json": {"info": {"version": "1.0"}}}
    assert vulnerabilities(pages.get, "a", "1.0") is None
    assert vulnerabilities(pages.get, "b", "1.0") is None


def test_a_withdrawn_vulnerability_does_not_count() -> None:
    pages = {"a/1.0/json": page("1.0", KNOWN | {"withdrawn": "2026-01-01T00:00:00Z"})}
    assert vulnerabilities(pages.get, "a", "1.0") == []


def test_the_status_distinguishes_clean_vulnerable_and_unanswered() -> None:
    pages = {"a/1.0/json": page("1.0"), "b/1.0/json": page("1.0", KNOWN)}
    clean, vulnerable, unanswered = ("a", "1.0"), ("b", "1.0"), ("c", "1.0")
    assert report(pages.get, [clean]) == (["1 of 1 versions looked up, 0 vulnerabilities."], 0)
    assert report(pages.get, [clean, unanswered]) == (
        ["1 of 2 versions looked up, 0 vulnerabilities.", "The index did not answer for c 1.0."],
        2,
    )
    lines, status = report(pages.get, [clean, vulnerable, unanswered])
    assert lines[0] == "b 1.0: PYSEC-1, CVE-1; fixed in 1.1, 2.0"
    assert status == 1
