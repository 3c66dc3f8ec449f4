"""Shell completion of names through the service, without a kubeconfig."""

from __future__ import annotations

import os

import pytest

from support.cluster_tools import POOL, Place, training
from support.completion import SHELLS, completed
from support.remote import Remote


@pytest.mark.parametrize("options", [(), ("--server",)], ids=["login", "--server"])
def test_names_are_completed_from_the_service(
    options: tuple[str, ...], remote: Remote, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.apply(training("sft-7b"))
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "spec": {"hard": {"pods": "90"}}}
    place.create({**quota, "metadata": {"name": "few", "labels": {"runwhere.ai/quota": "few"}}})
    remote.login()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(remote.directory))
    monkeypatch.setenv("KUBECONFIG", os.devnull)
    service = (*options, remote.served.url) if options else ()
    place.until(lambda: "sft-7b" in completed("bash", "why", *service), "the job in the service's copy")
    place.until(lambda: "few" in completed("bash", "describe", "quota", *service), "the quota in the service's copy")
    node = place.plane.kubectl("get", "nodes", "-o", "name").split()[0].removeprefix("node/")
    for shell in SHELLS:
        assert "sft-7b" in completed(shell, "logs", *service)
        assert POOL in completed(shell, "get", "jobs", *service, "--pool")
        assert node in completed(shell, "describe", "node", *service)
        assert place.namespace in completed(shell, "get", "jobs", *service, "-n")
        assert remote.served.url in completed(shell, "get", "jobs", "--server")
    assert completed("bash", "delete", "job", *service, "-n", place.namespace) == {"sft-7b"}
