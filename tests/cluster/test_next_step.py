"""The commands that gpuctl advises on a terminal after a change: they can be pasted, and are printed once."""

from __future__ import annotations

import re
import shlex

from support.cluster_tools import Place, compute, inference, notebook, training
from support.command import on_a_terminal

ADVICE = re.compile(r"`(gpuctl [^`]*)` (?:\S+ )+?\S+\n")


def test_changes_advise_the_next_command(place: Place) -> None:
    options = ("-n", place.namespace, f"--kubeconfig={place.plane.kubeconfig()}")

    def advised(*words: str) -> list[str]:
        code, shown = on_a_terminal(*words, *options)
        assert code == 0, shown
        return [command.removesuffix(f" {shlex.join(options)}") for command in ADVICE.findall(shown)]

    def applied(*documents: object) -> list[str]:
        return advised("apply", "-f", place.file(*documents))  # type: ignore[arg-type]

    assert applied(training(), inference(), notebook()) == ["gpuctl port-forward serve"]
    assert applied(training(), inference(), notebook()) == [], "nothing was created"
    assert applied(inference("other")) == ["gpuctl port-forward other"]
    assert applied(compute("web", service={"port": 80})) == ["gpuctl port-forward web"]
    assert advised("pause", "web") == ["gpuctl resume web"]
    assert advised("resume", "web") == ["gpuctl port-forward web"]
    assert applied(training("alone")) == ["gpuctl logs -f alone"]
    place.limit(gpu="1")
    later = place.file(training("later", resources={"gpu": 1}))
    assert advised("apply", "--yes", "--queue", "-f", later) == ["gpuctl why later"]
    # Piped output gets no hint.
    assert "port-forward" not in place.gpuctl("apply", "-f", place.file(notebook("piped")), "--queue").err
