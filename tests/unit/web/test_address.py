"""The address of the HTTP service: when it's a problem that another program uses it."""

import pytest

from supervisor_core.config.load import check_raw
from supervisor_core.config.raw import parse_raw
from supervisor_core.web.service import is_needed


@pytest.mark.parametrize(
    ("settings", "needed"),
    [
        ("metrics: {}", False),
        ("metrics: {bind: '127.0.0.1:9464'}", True),
        ("alerts: {incoming: {token: 0123456789abcdef0123456789abcdef}}", True),
    ],
)
def test_a_taken_address_is_a_problem_if_somebody_chose_it_or_alertmanager_uses_it(settings: str, needed: bool) -> None:
    assert is_needed(check_raw(parse_raw(f"{settings}\n", "config.yaml"))) is needed
