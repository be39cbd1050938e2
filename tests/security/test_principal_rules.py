"""KIP-371's rules, with the cases of Kafka's SslPrincipalMapperTest."""

import pytest

from broker.common.errors import ConfigError
from broker.common.patterns import compiled
from broker.common.slices import run_through
from broker.security.principal_rules import MAX_NAME_LENGTH, MAX_PROGRAM, MAX_WORK, PrincipalRules

RULES = ", ".join(
    [
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L",
        "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L",
        "RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U",
        "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U",
        "DEFAULT",
    ]
)


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        ("CN=Duke,OU=ServiceUsers,O=Org,C=US", "duke"),
        ("CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        ("cn=duke,ou=sme,dc=mycp,dc=com", "DUKE@SME"),
        ("O=apache,CN=kafka.apache.org", "KAFKA.APACHE.ORG"),
        ("OU=JavaSoft,O=Sun Microsystems,C=US", "OU=JavaSoft,O=Sun Microsystems,C=US"),
    ],
)
def test_the_first_rule_that_fits_wins(subject: str, name: str) -> None:
    assert run_through(PrincipalRules(RULES).apply(subject)) == name


def test_where_no_rule_fits_there_is_no_name() -> None:
    assert run_through(PrincipalRules("RULE:^CN=a$/x/").apply("CN=ab")) is None


def test_a_pattern_must_fit_the_whole_subject() -> None:
    assert run_through(PrincipalRules("RULE:CN=a/x/,DEFAULT").apply("CN=ab")) == "CN=ab"


@pytest.mark.parametrize(
    ("rule", "name"),
    [
        (r"RULE:^CN=(.*)$/a\/$1/", "a/x"),
        (r"RULE:^CN=(.*)$/$2-$1/", "$2-x"),
        (r"RULE:^CN=(.*)$/\$1/", "$1"),
        (r"RULE:^CN=\w$/fixed/L", "fixed"),
        ("RULE:^CN=(.*)$/$1/\nDEFAULT", "x"),
    ],
)
def test_replacements_are_javas(rule: str, name: str) -> None:
    assert run_through(PrincipalRules(rule).apply("CN=x")) == name


@pytest.mark.parametrize(
    "text",
    [
        "",
        "default",
        "DEFAUL",
        "DEFAULT/L",
        "DEFAULT/",
        "RULE:",
        "RULE:^CN=(.*?)/$1",
        "RULE:^CN=(.*?)/$1/LU",
        "RULE:^CN=(.*?)/$1/L/U",
        "RULE:^CN=(.*?)/L",
        "RULE:CN=(.*?),OU=(.*?)/$1",
        "RULE:^CN=(/$1/",
        "DEFAULT;DEFAULT",
    ],
)
def test_invalid_rules_are_refused_with_their_key(text: str) -> None:
    with pytest.raises(ConfigError, match=r"ssl\.principal\.mapping\.rules"):
        PrincipalRules(text)


@pytest.mark.parametrize("pattern", ["^(a*)*b$", "^(a+)+$", "^(.*a){20}$", "^(([a-z])+.)+[A-Z]([a-z])+$"])
def test_a_pattern_with_repetitions_in_repetitions_is_matched_in_linear_time(pattern: str) -> None:
    """A backtracking engine would practically never finish."""
    assert run_through(PrincipalRules(f"RULE:{pattern}/x/").apply("a" * 8_000 + ",")) is None


@pytest.mark.parametrize("pattern", ["^CN=(?=a).*$", "^(a)\\1$", "^a++$", "^a{1001}$"])
def test_patterns_unknown_to_re2_are_refused_with_the_pattern(pattern: str) -> None:
    with pytest.raises(ConfigError, match="a pattern that RE2 supports"):
        PrincipalRules(f"RULE:{pattern}/x/")


@pytest.mark.parametrize(("length", "name"), [(8_191, "x"), (8_192, "x"), (8_193, None)])
def test_a_subject_has_a_longest_length(length: int, name: str | None) -> None:
    assert run_through(PrincipalRules("RULE:^a*$/x/").apply("a" * length)) == name


@pytest.mark.parametrize(("count", "taken"), [(99, True), (100, True), (101, False)])
def test_a_listener_has_at_most_a_hundred_rules(count: int, taken: bool) -> None:
    text = ",".join(["RULE:^a$/b/"] * (count - 1) + ["DEFAULT"])
    if taken:
        assert run_through(PrincipalRules(text).apply("c")) == "c"
    else:
        with pytest.raises(ConfigError, match="at most 100 rules"):
            PrincipalRules(text)


@pytest.mark.parametrize(
    ("rule", "subject", "name"),
    [
        ("RULE:^CN=([^,]+),.*$/$1/", "CN=J\u00f6rg \u2603,O=x", "J\u00f6rg \u2603"),
        ("RULE:^CN=(a)?b$/[$1]/", "CN=b", "[]"),
        ("RULE:a|ab/x/", "ab", "xb"),
        ("RULE:(?i)^cn=(\\w+)$/$1/U", "CN=duke", "DUKE"),
    ],
)
def test_rules_do_what_javas_do(rule: str, subject: str, name: str) -> None:
    assert run_through(PrincipalRules(rule).apply(subject)) == name


@pytest.mark.parametrize(
    ("case", "subject", "name"),
    [
        ("L", "CN=Kafka", "kafka"),
        ("L", "CN=\u212aafka", "\u212aafka"),  # the sign of kelvin, whose small letter is a k
        ("L", "CN=ADM\u0130N", "adm\u0130n"),
        ("L", "CN=ÄRGER", "ärger"),
        ("U", "CN=kafka", "KAFKA"),
        ("U", "CN=u\u017fer", "U\u017fER"),  # a long s
        ("U", "CN=adm\u0131n", "ADM\u0131N"),
        ("U", "CN=groß", "GROß"),
        ("U", "CN=ärger", "ÄRGER"),
    ],
)
def test_a_change_of_case_makes_no_letter_of_ascii(case: str, subject: str, name: str) -> None:
    assert run_through(PrincipalRules(f"RULE:^CN=(.*)$/$1/{case}").apply(subject)) == name


SLOW = "(.*?)(.?a)" * 15
"""A pattern for which RE2 follows many alternatives at each character."""


def test_the_longest_name_falls_with_the_size_of_the_largest_pattern() -> None:
    """RE2 took 485 ms for one name of 8,192 characters."""
    rules = PrincipalRules(f"RULE:^CN=([^,]+),.*$/$1/,RULE:{SLOW}/$1/,DEFAULT")
    assert rules.longest == MAX_WORK // compiled(SLOW).programsize < MAX_NAME_LENGTH
    for length, expected in ((rules.longest - 1, "b"), (rules.longest, "b"), (rules.longest + 1, None)):
        name = run_through(rules.apply("b" * length))
        assert name == (expected and expected * length)


def test_a_pattern_has_a_largest_size() -> None:
    """An ASCII letter is one instruction."""
    room = MAX_PROGRAM - compiled("").programsize
    for count in (room - 1, room):
        assert run_through(PrincipalRules(f"RULE:{'a' * count}/x/").apply("a" * count)) == "x"
    with pytest.raises(ConfigError, match=f"at most {MAX_PROGRAM} instructions") as refused:
        PrincipalRules(f"RULE:{'a' * (room + 1)}/x/")
    assert "ssl.principal.mapping.rules" in str(refused.value)


def test_every_pattern_can_match_names_of_a_thousand_characters() -> None:
    assert MAX_WORK // MAX_PROGRAM >= 1_024


@pytest.mark.parametrize(("length", "accepted"), [(1_023, True), (1_024, True), (1_025, False)])
def test_a_replacement_has_a_longest_length(length: int, accepted: bool) -> None:
    text = f"RULE:^CN=a$/{'x' * length}/"
    if accepted:
        assert run_through(PrincipalRules(text).apply("CN=a")) == "x" * length
    else:
        with pytest.raises(ConfigError, match="at most 1024 characters"):
            PrincipalRules(text)


@pytest.mark.parametrize(("length", "mapped"), [(15, True), (16, True), (17, False)])
def test_a_pattern_that_matches_too_many_parts_of_a_name_gives_none(length: int, mapped: bool) -> None:
    """Java's replaceAll replaces every match; a name of 8,191 letters took 7.8 s and became 204 MB."""
    name = run_through(PrincipalRules("RULE:a|a+b/x/,DEFAULT").apply("a" * (length - 1) + "ab"))
    assert name == ("x" * length + "b" if mapped else None)


@pytest.mark.parametrize(("length", "mapped"), [(8_191, True), (8_192, True), (8_194, False)])
def test_a_mapped_name_has_a_longest_length(length: int, mapped: bool) -> None:
    rules = PrincipalRules("RULE:^(a*)(b?)$/$1$1$2/")
    name = run_through(rules.apply("a" * (length // 2) + "b" * (length % 2)))
    assert (name is not None and len(name)) == (mapped and length)


def test_many_rules_are_tried_in_pieces() -> None:
    size = compiled("^a*b$").programsize
    rules = PrincipalRules(",".join(["RULE:^a*b$/x/"] * 99 + ["DEFAULT"]))
    name = "a" * 8_000
    pauses = sum(1 for _ in rules.apply(name))
    per_piece = MAX_WORK // (size * len(name))
    assert pauses == (99 - 1) // per_piece > 1
    assert sum(1 for _ in rules.apply("CN=alice,O=example")) == 0
    assert run_through(rules.apply(name)) == name
