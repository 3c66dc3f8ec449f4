"""Killed around a checkpoint: it runs before its job ends, again if its success is unknown, and not twice if the
journal records it.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from fault_tools.calls import MOMENTS, PARTS, Call, Counter
from fault_tools.documents import text, training
from fault_tools.proxy import nth, on
from fault_tools.site import Base, Site, ends_workload, site
from fault_tools.world import Snapshot, rest
from properties.scale import part_of

pytestmark = pytest.mark.usefixtures("shared_objects")

WRITES = 7
"""Lease, journal, delete, create, the history, and the first two away again."""


class Saving:
    """A training whose checkpoint adds a line to a file, and waits while there is a gate."""

    def __init__(self, place: Site) -> None:
        self.place = place
        self.file, self.gate = place.directory / "saved", place.directory / "gate"
        self.file.touch()
        place.base.api.create_namespace(place.namespace)
        self.write("v1")
        assert place.apply(place.direct).code == 0
        place.base.api.wait(self.runs, "a pod that runs")

    def write(self, image: str) -> None:
        """Write its document."""
        document = training(image)
        script = f"echo saved >> {self.file}; while [ -e {self.gate} ]; do sleep 0.1; done"
        document["job"]["checkpoint"] = {"command": ["sh", "-c", script]}
        self.place.file.write_text(text(document))

    def runs(self) -> bool:
        """Return True if its pod runs."""
        pods = self.place.base.api.list_objects("Pod", self.place.namespace)
        return any(pod["status"].get("phase") == "Running" for pod in pods)

    def finish(self) -> None:
        """Apply the document once more: it is brought about, and nothing is left behind."""
        again = self.place.apply(self.place.direct)
        assert again.code == 0, again.stderr
        now = self.place.snapshot()
        assert "train:v2" in now["Job", "train"].spec
        # A run that finds nothing to do takes no lease, nor a dead one's away.
        assert [left for left in rest(now) if "lease" not in left] == []

    @property
    def times(self) -> int:
        """Return the number of checkpoints that were run."""
        return len(self.file.read_text().splitlines())


@pytest.fixture
def saving(base: Base, tmp_path: Path) -> Iterator[Saving]:
    base.plane.start_streams()
    with site(base, "saving", tmp_path) as place:
        yield Saving(place)


def is_as_it_was(now: Snapshot, before: Snapshot) -> bool:
    """Return True if the old job exists and is not being deleted."""
    live = now.get(("Job", "train"))
    return (
        live is not None
        and live.uid == before["Job", "train"].uid
        and not live.object["metadata"].get("deletionTimestamp")
    )


@pytest.mark.parametrize(("number", "moment"), part_of(product(range(1, WRITES + 1), ["before", "after"]), PARTS))
def test_apply_killed_at_every_write(saving: Saving, number: int, moment: str) -> None:
    place = saving.place
    old = place.snapshot()
    saving.write("v2")
    counter = Counter(Call("write", number, moment))
    killed = place.disturb(place.apply_arguments, lambda victim: on(counter.is_the_call, MOMENTS[moment](victim)))
    assert (killed.code, counter.found is None) == (-signal.SIGKILL, False), killed.stderr
    there, times = place.snapshot(), saving.times
    untouched, remembered = is_as_it_was(there, old), any(name.startswith("gpuctl-journal-") for _, name in there)
    # What has begun to go has saved before, and so has what the journal remembers.
    assert times == 1 or not (remembered or not untouched)
    saving.finish()
    assert saving.times == times + (untouched and not remembered)


ENDED = {"delete": (("delete", "job", "train", "--yes"), 5), "pause": (("pause", "train"), 3)}
"""Commands that put nothing in the place of a job, and their writes: the journal, the end and the journal away again, and
around them a deletion's lease."""


@pytest.mark.parametrize(
    ("name", "number"),
    part_of([(name, number) for name, (_, writes) in ENDED.items() for number in range(1, writes + 1)], PARTS),
)
def test_delete_or_pause_killed_before_every_write(saving: Saving, name: str, number: int) -> None:
    place = saving.place
    old = place.snapshot()
    arguments = [*ENDED[name][0], "-n", place.namespace]
    counter = Counter(Call("write", number, "before"))
    killed = place.disturb(arguments, lambda victim: on(counter.is_the_call, MOMENTS["before"](victim)))
    assert (killed.code, counter.found is None) == (-signal.SIGKILL, False), killed.stderr
    there, times = place.snapshot(), saving.times
    untouched = is_as_it_was(there, old) and not there["Job", "train"].object["spec"].get("suspend")
    remembered = any(key.startswith("gpuctl-journal-") for _, key in there)
    assert times == 1 or ((times, number) == (0, 1) and untouched and name == "delete")
    assert remembered or untouched or number == 5
    if untouched:
        again = place.run(arguments, place.direct)
        assert again.code == 0, again.stderr
    assert saving.times == times + (untouched and not remembered)
    place.wait_for_deleted()
    recovered = place.recover(place.direct)
    assert recovered.code == 0, recovered.stderr
    assert [left for left in rest(place.snapshot()) if "lease" not in left] == []
    assert (("Job", "train") in place.snapshot()) == (name == "pause")


def test_checkpoint_is_saved_again_after_a_recovery(saving: Saving) -> None:
    """A recovery keeps the old job, which continues: the next apply saves its later progress."""
    place = saving.place
    saving.write("v2")
    killed = place.disturb(place.apply_arguments, lambda victim: on(nth(1, ends_workload), MOMENTS["before"](victim)))
    assert (killed.code, saving.times) == (-signal.SIGKILL, 1)
    recovered = place.recover(place.direct)
    assert (recovered.code, saving.times) == (0, 1), recovered.stderr
    saving.finish()
    assert saving.times == 2


def test_apply_killed_during_the_checkpoint(saving: Saving) -> None:
    """Then it has not been run: nothing was ended, and it runs again."""
    place = saving.place
    old = place.snapshot()
    saving.write("v2")
    saving.gate.touch()
    running = place.start(place.apply_arguments, place.direct)
    place.base.api.wait(lambda: saving.times, "the checkpoint")
    running.kill()
    assert is_as_it_was(place.snapshot(), old)
    saving.gate.unlink()
    saving.finish()
    assert saving.times == 2
