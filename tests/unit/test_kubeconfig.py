"""Reading kubeconfig files without a cluster: what may be absent."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuctl.kube.configuration import connect
from gpuctl.kube.kubeconfig import choose

BLANK_FIELDS = """\
apiVersion: v1
kind: Config
current-context: here
clusters:
- name: here
  cluster:
    server: https://10.0.0.1:6443
    proxy-url:
    insecure-skip-tls-verify: ~
    extensions: null
- name: unused
  cluster:
contexts:
- name: here
  context:
    cluster: here
    user: me
    namespace:
- name: unused
users:
- name: me
  user:
    token: secret
    as-groups:
    as-user-extra:
    client-certificate:
- name: unused
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1
      command: login
      args:
      installHint:
      provideClusterInfo:
"""


def test_fields_without_a_value_count_as_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """kubectl reads the same file: a null is the zero value of any field."""
    for name in ("HTTPS_PROXY", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    file = tmp_path / "config"
    file.write_text(BLANK_FIELDS)
    chosen = choose([str(file)], None)
    assert (chosen.namespace, chosen.cluster.text("proxy-url")) == ("", "")
    connection = connect(kubeconfig=str(file))
    assert (connection.server, connection.namespace) == ("https://10.0.0.1:6443", "default")


def test_file_without_entries_is_a_kubeconfig(tmp_path: Path) -> None:
    """A file of `KUBECONFIG` to which nothing was added yet."""
    empty, whole = tmp_path / "empty", tmp_path / "whole"
    empty.write_text("apiVersion: v1\nkind: Config\npreferences: {}\n")
    whole.write_text(BLANK_FIELDS)
    assert choose([str(empty), str(whole)], None).context == "here"
