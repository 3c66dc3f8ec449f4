"""The hint after `gpuctl apply` on a terminal: a `gpuctl port-forward` command that can be pasted, printed once."""

from __future__ import annotations

import re
import shlex

from support.cluster_tools import Place, compute, inference, notebook, training
from support.command import on_a_terminal


def test_apply_suggests_how_to_open_new_services(place: Place) -> None:
    advice = re.compile(r"`(gpuctl port-forward [^`]*)` forwards a local port to (\S+) when it runs\n")
    kubeconfig = str(place.plane.kubeconfig())
    options = ("-n", place.namespace, f"--kubeconfig={kubeconfig}")

    def advised(*documents: object) -> list[tuple[str, str]]:
        code, shown = on_a_terminal("apply", "-f", place.file(*documents), *options)  # type: ignore[arg-type]
        assert code == 0, shown
        return advice.findall(shown)

    [(command, name)] = advised(training(), notebook(), inference())
    assert name == "note"
    assert shlex.split(command) == ["gpuctl", "port-forward", name, "-n", place.namespace, f"--kubeconfig={kubeconfig}"]
    assert advised(training(), notebook(), inference()) == [], "nothing was created"
    assert [name for _, name in advised(inference("other"))] == ["other"]
    assert [name for _, name in advised(compute("web", service={"port": 80}))] == ["web"]
    assert advised(training("more")) == []
    # Piped output gets no hint.
    assert "port-forward" not in place.gpuctl("apply", "-f", place.file(notebook("piped"))).err
