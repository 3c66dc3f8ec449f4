"""States of the server that the tests of killed commands take for one: a skipped run must be one that was made."""

from __future__ import annotations

from pathlib import Path

import pytest

from fault_tools.documents import NEW, OLD
from fault_tools.proxy import (
    after,
    matching,
    on,
)
from fault_tools.site import Base, site
from fault_tools.world import FOREIGN, HASH, Seen, state_of


@pytest.mark.usefixtures("shared_objects")
def test_equal_states_are_recognized(base: Base, tmp_path: Path) -> None:
    """Journals and leases included: what went the same way is the same, and nothing else is."""
    states = []
    seen = Seen()
    journal = matching("POST", "/secrets", writes=True)
    for name in ("one", "two"):
        with site(base, f"tool-state-{name}", tmp_path / name) as place:
            place.prepare(OLD)
            place.file.write_text(NEW)
            old = place.snapshot()
            hashes = base.recorded(NEW).hashes(place.namespace)
            place.disturb(place.apply_arguments, lambda victim: on(journal, after(lambda: victim().kill())))
            killed = place.snapshot()
            assert any(live.is_journal for live in killed.values())
            states.append(state_of(killed, old, hashes))
            assert seen.is_new(state_of(old, old, hashes)) is (name == "one")
            for change in (
                {"metadata": {"annotations": {HASH: "0" * 32}}},
                {"metadata": {"labels": {"somebody": "else"}}},
                {"metadata": {"finalizers": ["example.com/held"]}},
                {"spec": {"ports": [{"port": 81}]}},
            ):
                base.api.patch("Service", place.namespace, f"{FOREIGN}-service", change)
                assert seen.is_new(state_of(place.snapshot(), old, hashes)) is (name == "one"), change
            base.api.patch("Service", place.namespace, f"{FOREIGN}-service", {"metadata": {"finalizers": None}})
            base.api.delete("Job", place.namespace, "train")
            base.api.wait(lambda: base.api.get("Job", place.namespace, "train") is None, "the job to go")
            assert seen.is_new(state_of(place.snapshot(), old, hashes)) is (name == "one")
            for write in base.recorded(OLD).writes(place.namespace):
                if write.body["kind"] == "Job":
                    base.api.call(write.method, write.path, write.body, write.content_type)
            assert seen.is_new(state_of(place.snapshot(), old, hashes)) is (name == "one")
    assert states[0] == states[1]
