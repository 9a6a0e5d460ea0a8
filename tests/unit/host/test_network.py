"""The rule for proxies and certificates: which variable counts for which URL."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisor_core.host.network import DIRECT, Network, NetworkError, without_password

PROXY = "http://proxy.example.com:3128"


@pytest.mark.parametrize(
    ("url", "environ", "proxy"),
    [
        ("https://slack.com/api/", {"HTTPS_PROXY": PROXY}, PROXY),
        ("wss://wss-primary.slack.com/link/?ticket=1", {"HTTPS_PROXY": PROXY}, PROXY),
        ("http://slack.com/api/", {"HTTPS_PROXY": PROXY}, None),
        ("https://slack.com/api/", {"HTTP_PROXY": PROXY}, None),
        ("http://receiver.example/", {"HTTP_PROXY": PROXY}, PROXY),
        ("ws://receiver.example/", {"HTTP_PROXY": PROXY}, PROXY),
        ("https://slack.com/", {"ALL_PROXY": PROXY}, PROXY),
        ("https://slack.com/", {"ALL_PROXY": PROXY, "HTTPS_PROXY": "http://other:1"}, "http://other:1"),
        ("https://slack.com/", {"https_proxy": PROXY, "HTTPS_PROXY": "http://other:1"}, PROXY),
        ("https://slack.com/", {"https_proxy": "", "HTTPS_PROXY": PROXY}, PROXY),
        ("https://slack.com/", {"HTTPS_PROXY": " "}, None),
        ("https://slack.com/", {"HTTPS_PROXY": "proxy:3128"}, "http://proxy:3128"),
        ("https://slack.com/", {"HTTPS_PROXY": "https://proxy:3128"}, "https://proxy:3128"),
        ("https://slack.com/", {}, None),
        ("https://localhost:8443/", {"HTTPS_PROXY": PROXY}, None),
        ("https://app.localhost/", {"HTTPS_PROXY": PROXY}, None),
        ("http://127.0.0.1:8080/health", {"HTTP_PROXY": PROXY}, None),
        ("http://[::1]:8080/", {"HTTP_PROXY": PROXY}, None),
    ],
)
def test_the_proxy_of_a_url(url: str, environ: dict[str, str], proxy: str | None) -> None:
    assert Network(environ).proxy(url) == proxy


@pytest.mark.parametrize(
    ("url", "no_proxy", "direct"),
    [
        ("https://slack.com/", "slack.com", True),
        ("https://hooks.slack.com/", "slack.com", True),
        ("https://hooks.slack.com/", ".slack.com", True),
        ("https://hooks.slack.com/", "*.slack.com", True),
        ("https://HOOKS.slack.com./", "Slack.Com", True),
        ("https://notslack.com/", "slack.com", False),
        ("https://slack.com.example/", "slack.com", False),
        ("https://slack.com/", "example.com, slack.com", True),
        ("https://slack.com/", "example.com slack.com", True),
        ("https://slack.com/", "*", True),
        ("https://10.1.2.3/", "*", True),
        ("https://slack.com/", "slack.com:443", True),
        ("https://slack.com:8443/", "slack.com:443", False),
        ("https://10.1.2.3/", "10.0.0.0/8", True),
        ("https://11.1.2.3/", "10.0.0.0/8", False),
        ("https://10.1.2.3/", "10.1.2.3", True),
        ("https://10.1.2.3:8443/", "10.1.2.3:443", False),
        ("https://[fd00::1]/", "fd00::/8", True),
        ("https://[fd00::1]/", "[fd00::1]:443", True),
        ("https://[fd00::1]:8443/", "[fd00::1]:443", False),
        ("https://slack.com/", "10.0.0.0/8,,.", False),
    ],
)
def test_what_no_proxy_lists_is_reached_directly(url: str, no_proxy: str, direct: bool) -> None:
    for name in ("NO_PROXY", "no_proxy"):
        found = Network({"HTTPS_PROXY": PROXY, name: no_proxy}).proxy(url)
        assert found == (None if direct else PROXY)


@pytest.mark.parametrize(
    "value", ["socks5://proxy:1080", "http://", "http://proxy:port", "http://pro xy:1", "ftp://proxy", "http://proxy:0"]
)
def test_a_proxy_that_can_not_be_one_is_named_by_its_variable_and_not_quoted(value: str) -> None:
    with pytest.raises(NetworkError, match=r"^https_proxy must be the URL of an HTTP proxy") as refused:
        Network({"https_proxy": value}).proxy("https://slack.com/")
    assert value not in str(refused.value).replace(PROXY, "")
    assert ".env" in refused.value.remedy


def test_passwords_of_proxies_are_secrets_and_not_shown() -> None:
    network = Network({"HTTPS_PROXY": "http://anna:p%40ss@proxy:3128", "HTTP_PROXY": "bob:w0rd@proxy:1"})
    assert set(network.secrets()) == {"p%40ss", "p@ss", "w0rd"}
    assert list(network.proxy_variables()) == [("HTTPS_PROXY", "http://proxy:3128"), ("HTTP_PROXY", "http://proxy:1")]
    assert without_password("http://anna:p%40ss@proxy:3128/") == "http://proxy:3128"
    assert list(DIRECT.secrets()) == []


@pytest.mark.parametrize("name", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"])
def test_a_file_without_certificates_is_named_by_its_variable(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty.pem").write_text("none here")
    for file, words in (("empty.pem", "has no certificates in PEM form"), ("gone.pem", "No such file or directory")):
        with pytest.raises(NetworkError, match=f"^{name}: {tmp_path / file} .*{words}"):
            Network({name: file}, tmp_path).tls()


def test_tls_settings_are_loaded_where_there_is_tls_and_only_there() -> None:
    broken = Network({"SSL_CERT_FILE": "/nowhere", "HTTP_PROXY": "https://proxy:3128", "NO_PROXY": "direct.example"})
    assert broken.tls_for("http://direct.example/") is None
    for url in ("https://slack.com/", "wss://slack.com/", "http://through.example/"):
        with pytest.raises(NetworkError):
            broken.tls_for(url)
    assert DIRECT.tls() is DIRECT.tls()
