"""Lists of all pods are shared by concurrent requests, and are never older than the request."""

from __future__ import annotations

import threading
import time

import pytest

from gpuctl.objects.api_resources import Object
from gpuctl_server.mirror import shared_lists
from gpuctl_server.mirror.shared_lists import MaxListAge, SharedLists


class Cluster:
    """A cluster that counts its lists; a list takes `seconds`, and its version is its number."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.lists = 0
        self._seconds = seconds

    def read(self) -> tuple[list[Object], str]:
        self.lists += 1
        version = str(self.lists)
        time.sleep(self._seconds)
        return [{"metadata": {"name": f"pod-{version}"}}], version


def test_requests_at_the_same_time_share_a_list() -> None:
    """The first of sixteen plans reads; those that arrive during its list share the next one."""
    shared, cluster = SharedLists(), Cluster(0.2)
    versions: list[str] = []

    def plan() -> None:
        versions.append(shared.list_of("Pod", MaxListAge().since(), cluster.read).version)

    threads = [threading.Thread(target=plan) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(versions) == 16
    assert cluster.lists <= 3


def test_list_is_not_older_than_its_request() -> None:
    shared, cluster = SharedLists(), Cluster()
    first = shared.list_of("Pod", MaxListAge().since(), cluster.read)
    second = shared.list_of("Pod", MaxListAge().since(), cluster.read)
    assert (first.version, second.version) == ("1", "2")
    assert shared.list_of("Node", MaxListAge().since(), cluster.read).version == "3"


def test_entries_of_a_batch_share_a_list_up_to_its_maximum_age() -> None:
    """No list is older than the batch or a few seconds: later entries see what earlier ones created."""
    shared, cluster = SharedLists(), Cluster()
    shared.list_of("Pod", MaxListAge().since(), cluster.read)
    batch = MaxListAge(0.3)
    versions = [shared.list_of("Pod", batch.since(), cluster.read).version for _ in range(50)]
    assert set(versions) == {"2"}
    time.sleep(0.35)
    assert shared.list_of("Pod", batch.since(), cluster.read).version == "3"


def test_failed_list_is_not_cached() -> None:
    shared, cluster = SharedLists(), Cluster()

    def fail() -> tuple[list[Object], str]:
        raise OSError

    for _ in range(2):
        try:
            shared.list_of("Pod", MaxListAge().since(), fail)
        except OSError:
            continue
        raise AssertionError
    assert shared.list_of("Pod", MaxListAge().since(), cluster.read).version == "1"


def test_request_that_permits_it_gets_a_list_that_is_older_than_itself() -> None:
    shared, cluster = SharedLists(), Cluster()
    shared.list_of("Pod", MaxListAge().since(), cluster.read)
    assert shared.list_of("Pod", MaxListAge(10, before=5).since(), cluster.read).version == "1"
    assert shared.list_of("Pod", MaxListAge(10).since(), cluster.read).version == "2"


def test_lists_with_other_field_selectors_are_separate() -> None:
    """The scheduler's rules need only pods that have not ended; the API server selects them."""
    shared, cluster = SharedLists(), Cluster()
    batch = MaxListAge(10)
    versions = [shared.list_of("Pod", batch.since(), cluster.read, fields).version for fields in ("", "a=b", "a=b")]
    assert versions == ["1", "2", "2"]


def test_list_that_is_too_old_for_every_request_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    shared, cluster = SharedLists(), Cluster()
    shared.list_of("Pod", MaxListAge().since(), cluster.read)
    shared.forget_outdated()
    assert shared.list_of("Pod", MaxListAge(60, before=60).since(), cluster.read).version == "1"
    monkeypatch.setattr(shared_lists, "READ_ONLY_AGE", 0.0)
    time.sleep(0.01)
    shared.forget_outdated()
    assert shared.list_of("Pod", MaxListAge(60, before=60).since(), cluster.read).version == "2"
