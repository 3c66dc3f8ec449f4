"""Where the cluster is, and how the service reaches it, is not for its users."""

from __future__ import annotations

import pytest

from gpuctl.answers.advice import by_service, for_rest

AWAY = "the Kubernetes API server cannot be reached"


@pytest.mark.parametrize("words", [for_rest, by_service])
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("https://127.0.0.1:27674 (context test) cannot be reached: _ssl.c:989: The handshake timed out", AWAY),
        ("https://10.0.0.1:6443 cannot be reached through the proxy http://p:3128: refused", AWAY),
        ("https://[::1]:6443 (context a b) does not speak TLS as expected: wrong version", AWAY),
        ("the certificate of https://10.0.0.1:6443 is not trusted: self-signed", AWAY),
        ("the certificate of https://10.0.0.1:6443 is for another name: x", AWAY),
        ("https://10.0.0.1:6443 gave no answer within 10 s", "the Kubernetes API server gave no answer within 10 s"),
        ("pod a: https://h:1 cannot be reached: refused; pod b is gone", f"pod a: {AWAY}; pod b is gone"),
        (
            "check the context, the network and the proxy; `kubectl version` should work",
            "try again in a moment; administrators find the reason in the log of the service",
        ),
        ("the image https://a.example/b cannot be pulled", "the image https://a.example/b cannot be pulled"),
    ],
)
def test_what_is_told_of_the_cluster(words, text: str, told: str) -> None:  # type: ignore[no-untyped-def]
    assert words(text) == told
