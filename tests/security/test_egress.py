"""Where requests of an administrator may go: URLs, names, addresses in every form."""

from ipaddress import ip_address

import pytest

from broker.common.errors import ConfigError
from broker.config.host_patterns import HostPattern
from broker.config.load import load
from broker.security.egress import LONGEST_URL, Egress, is_public, read_url


def egress(*patterns: str) -> Egress:
    return Egress([HostPattern.read(each) for each in patterns])


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("https://hooks.example/a?b=c", ("https", "hooks.example", 443, "/a?b=c")),
        ("http://alertmanager:9093", ("http", "alertmanager", 9093, "/")),
        ("https://[2001:db8::1]:8443/x", ("https", "2001:db8::1", 8443, "/x")),
        ("https://EXAMPLE.com", ("https", "example.com", 443, "/")),
    ],
)
def test_a_url_is_read(url: str, parts: tuple[str, str, int, str]) -> None:
    found = read_url(url)
    assert (found.scheme, found.host, found.port, found.target) == parts


@pytest.mark.parametrize(
    "url",
    [
        "",
        "hooks.example",
        "ftp://hooks.example/",
        "file:///etc/passwd",
        "gopher://hooks.example/",
        "https://",
        "https:///path",
        "https://user:password@hooks.example/",
        "https://hooks.example@10.0.0.1/",
        "https://hooks.example:0/",
        "https://hooks.example:65536/",
        "https://hooks.example:",
        "https://hooks.example:x/",
        "https://hooks.example/#fragment",
        "https://hooks.example/ space",
        "https://hooks.example/\r\nHost: other",
        "https://hooks.example\\@10.0.0.1/",
        "https://hooks.example/\u0430",
        "https://m\u00fcller.example/",
        "https://[::1%25eth0]/",
        "https://[::1",
        "https://hooks.example/" + "x" * LONGEST_URL,
    ],
)
def test_a_doubtful_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError):
        read_url(url)


@pytest.mark.parametrize(("size", "accepted"), [(-1, True), (0, True), (1, False)])
def test_a_url_has_a_greatest_length(size: int, accepted: bool) -> None:
    url = "https://hooks.example/".ljust(LONGEST_URL + size, "x")
    if accepted:
        assert len(read_url(url).target) == len(url) - len("https://hooks.example")
    else:
        with pytest.raises(ValueError, match="longer than 2048"):
            read_url(url)


PRIVATE = [
    "127.0.0.1",
    "127.255.255.254",
    "0.0.0.0",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.0.1",
    "169.254.169.254",
    "100.64.0.1",
    "192.0.2.1",
    "198.18.0.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "2002:7f00:1::",
    "2002:a00:1::1",
    "2001:0:4136:e378:8000:63bf:80ff:fffe",
    "fe80::1",
    "fc00::1",
    "fd12:3456:789a::1",
    "ff02::1",
    "2001:db8::1",
    *("192.0.0.1", "192.0.0.8", "192.0.0.255", "::ffff:192.0.0.9", "64:ff9b::c000:1", "2002:c000:9::"),
    *("192.88.99.0", "192.88.99.1", "192.88.99.255", "64:ff9b::c058:6301"),
    *("fec0::", "fec0::1", "feff:ffff::1", "3fff::", "3fff:fff:ffff::1", "5f00::1", "64:ff9b:1::7f00:1"),
]


@pytest.mark.parametrize("address", PRIVATE)
def test_addresses_that_are_not_of_the_internet_are_not_public(address: str) -> None:
    assert not is_public(ip_address(address))
    endpoint = read_url("https://hooks.example/")
    assert not egress("public").allows(endpoint, ip_address(address))


@pytest.mark.parametrize(
    "address",
    [
        *("1.1.1.1", "8.8.8.8", "2606:4700::1111", "64:ff9b::808:808"),
        *("191.255.255.255", "192.0.1.0", "192.88.98.255", "192.88.100.0", "3ffe:ffff::1"),
    ],
)
def test_addresses_of_the_internet_are_public_over_https_only(address: str) -> None:
    assert egress("public").allows(read_url("https://hooks.example/"), ip_address(address))
    assert not egress("public").allows(read_url("http://hooks.example/"), ip_address(address))
    assert not egress().allows(read_url("https://hooks.example/"), ip_address(address))


@pytest.mark.parametrize(
    ("patterns", "url", "address", "allowed"),
    [
        (["alertmanager"], "http://alertmanager:9093/", "10.0.0.5", True),
        (["alertmanager:9093"], "http://alertmanager:9093/", "127.0.0.1", True),
        (["alertmanager:9093"], "http://alertmanager:9094/", "10.0.0.5", False),
        (["*.corp.example"], "https://a.b.corp.example/", "10.0.0.5", True),
        (["*.corp.example"], "https://corp.example/", "10.0.0.5", False),
        (["*.corp.example"], "https://evilcorp.example/", "10.0.0.5", False),
        (["10.1.0.0/16"], "http://anything/", "10.1.255.255", True),
        (["10.1.0.0/16"], "http://anything/", "10.2.0.0", False),
        (["10.1.0.0/16"], "http://anything/", "::ffff:10.1.0.1", True),
        (["10.1.2.3"], "http://anything/", "10.1.2.3", True),
        (["10.1.2.3"], "http://anything/", "10.1.2.4", False),
        (["fd00::/8"], "http://anything/", "fd00::1", True),
        (["[fd00::1]:9093"], "http://[fd00::1]:9093/", "fd00::1", True),
        (["[fd00::1]:9093"], "http://[fd00::1]:9094/", "fd00::1", False),
    ],
)
def test_the_list_names_hosts_and_networks(
    patterns: list[str], url: str, address: str, allowed: bool
) -> None:
    assert egress(*patterns).allows(read_url(url), ip_address(address)) is allowed


@pytest.mark.parametrize(
    ("patterns", "url", "words"),
    [
        (["public"], "https://hooks.example/", ""),
        (["public"], "http://hooks.example/", "http needs hooks.example in alerts.destination.hosts"),
        (["public"], "https://127.0.0.1/", "127.0.0.1 is not in alerts.destination.hosts"),
        (["public"], "https://[::1]/", "::1 is not in alerts.destination.hosts"),
        (["public"], "https://169.254.169.254/latest", "is not in alerts.destination.hosts"),
        (["public"], "https://8.8.8.8/", ""),
        (["10.0.0.0/8"], "http://10.0.0.1/", ""),
        (["10.0.0.0/8"], "http://some-name/", ""),
        (["other"], "https://some-name/", "some-name is not in"),
        ([], "https://8.8.8.8/", "8.8.8.8 is not in"),
    ],
)
def test_a_url_is_checked_as_far_as_it_can_be(patterns: list[str], url: str, words: str) -> None:
    if not words:
        assert egress(*patterns).check(url).scheme == url.partition(":")[0]
        return
    with pytest.raises(ValueError) as refusal:
        egress(*patterns).check(url)
    assert words in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "accepted"),
    [
        ("", True),
        ("public", True),
        ("Public, Alertmanager:9093, *.corp.example, 10.0.0.0/8, fd00::/8, fd00::1, [::1]:80", True),
        ("10.0.0.1/8", False),
        ("alertmanager:0", False),
        ("alertmanager:65536", False),
        ("alertmanager:", False),
        ("https://alertmanager", False),
        ("*", False),
        ("a b", False),
        ("[::1", False),
        ("[::1]80", False),
    ],
)
def test_the_list_is_read_from_the_configuration(text: str, accepted: bool) -> None:
    overrides = [f"alerts.destination.hosts={text}"]
    if accepted:
        load(None, overrides, {})
    else:
        with pytest.raises(ConfigError, match=r"alerts\.destination\.hosts"):
            load(None, overrides, {})


def test_by_default_only_the_internet_is_allowed() -> None:
    assert [str(each) for each in load(None, [], {}).config.alerts.destination_hosts] == ["public"]
