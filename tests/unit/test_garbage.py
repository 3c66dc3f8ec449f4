"""A compile in somebody else's process leaves its garbage collector as it was."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import pytest

import gpuctl
from gpuctl.garbage import THRESHOLDS, patient

DOCUMENT = gpuctl.Source("a.yaml", "kind: compute\nversion: v0.1\njob: {name: a}\nenvironment: {image: 'app:1'}\n")


@pytest.fixture(autouse=True)
def thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


def test_a_compile_leaves_it_as_it_was() -> None:
    assert gpuctl.compile(DOCUMENT).ok
    assert gc.get_threshold() == (700, 10, 10)
    with pytest.raises(ValueError, match="is not a legal namespace"):
        gpuctl.compile(DOCUMENT, namespace="A_B")
    assert gc.get_threshold() == (700, 10, 10)


def test_several_at_once() -> None:
    inside, leave = threading.Event(), threading.Event()

    def work() -> None:
        with patient():
            inside.set()
            leave.wait(30)

    thread = threading.Thread(target=work)
    thread.start()
    assert inside.wait(30)
    with patient():
        assert gc.get_threshold() == THRESHOLDS
    assert gc.get_threshold() == THRESHOLDS, "somebody is still at work"
    leave.set()
    thread.join()
    assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.parametrize("own", [(0, 0, 0), (500_000, 20, 20)])
def test_what_the_process_has_decided_stands(own: tuple[int, int, int]) -> None:
    gc.set_threshold(*own)
    with patient():
        assert gc.get_threshold() == own
    assert gc.get_threshold() == own


def test_what_somebody_sets_meanwhile_stands() -> None:
    with patient():
        gc.set_threshold(1000, 5, 5)
    assert gc.get_threshold() == (1000, 5, 5)
