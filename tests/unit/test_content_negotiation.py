"""The format of an answer, by the header ``Accept``."""

from __future__ import annotations

import pytest
from starlette.requests import Request

from gpuctl_server.http.content_negotiation import wants_yaml


@pytest.mark.parametrize(
    ("headers", "wanted"),
    [
        ([], False),
        (["*/*"], False),
        (["application/yaml"], True),
        (["application/yaml, application/json"], False),
        (["application/json;q=0.5, text/yaml"], True),
        (["application/json;charset=utf-8;q=0.1, application/yaml;q=0.9"], True),
        (["application/json;q=0.1;v=1, application/yaml;q=0.05"], False),
        (["application/yaml; Q=0.1, application/json; Q=0.2"], False),
        (["application/yaml;q=0.5, application/*;q=0.9"], False),
        (["text/html", "application/yaml"], True),
        (["application/yaml;q=x"], False),
    ],
)
def test_accept_header_selects_yaml(headers: list[str], wanted: bool) -> None:
    sent = [(b"accept", header.encode()) for header in headers]
    assert wants_yaml(Request({"type": "http", "headers": sent, "query_string": b""})) is wanted
