"""GPU502: a program listens on a port that no port of the Service targets."""

from __future__ import annotations

import pytest

import gpuctl

SERVICE = "{port: 80, targetPort: 8000, ports: [{name: a, port: 90, targetPort: 9000}, {name: b, port: 9100}]}"


@pytest.mark.parametrize(
    ("port", "codes"), [(8000, []), (9000, []), (9100, []), (80, ["GPU502"]), (90, ["GPU502"]), (8001, ["GPU502"])]
)
def test_program_may_listen_on_any_target_port(port: int, codes: list[str]) -> None:
    text = (
        "kind: inference\nversion: v0.1\njob: {name: chat}\n"
        f"environment: {{image: 'app:1', command: [vllm, serve, --port, '{port}']}}\nservice: {SERVICE}\n"
        "resources: {cpu: 1, memory: 1Gi}\n"
    )
    result = gpuctl.compile(gpuctl.Source("chat.yaml", text))
    assert result.ok
    found = [item for item in result.diagnostics if item.code == "GPU502"]
    assert [item.code for item in found] == codes
    assert [(item.hint or "").split(",")[0] for item in found] == [f"set `service.targetPort: {port}`" for _ in codes]


def test_the_command_is_shown_where_the_document_has_no_port() -> None:
    text = (
        "kind: inference\nversion: v0.1\njob: {name: chat}\n"
        "environment: {image: 'app:1', command: [vllm, serve, --port, '9000']}\nresources: {cpu: 1, memory: 1Gi}\n"
    )
    result = gpuctl.compile(gpuctl.Source("chat.yaml", text))
    (found,) = [item for item in result.diagnostics if item.code == "GPU502"]
    assert str(found.span) == "chat.yaml:4:62"
