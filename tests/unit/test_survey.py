"""Lists of all pods are read once for requests that ask at the same time, and never from before a request asked."""

from __future__ import annotations

import threading
import time

from gpuctl.objects.api_resources import Object
from gpuctl_server.mirror.shared_lists import MaxListAge, SharedLists


class Cluster:
    """Counts how often it is listed; a list takes a while, and tells when it was begun."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.lists = 0
        self._seconds = seconds

    def read(self) -> tuple[list[Object], str]:
        self.lists += 1
        version = str(self.lists)
        time.sleep(self._seconds)
        return [{"metadata": {"name": f"pod-{version}"}}], version


def test_requests_at_the_same_time_share_a_list() -> None:
    """Sixteen plans: the first reads, those that came while it did share the next one."""
    survey, cluster = SharedLists(), Cluster(0.2)
    versions: list[str] = []

    def plan() -> None:
        versions.append(survey.list_of("Pod", MaxListAge().since(), cluster.read).version)

    threads = [threading.Thread(target=plan) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(versions) == 16
    assert cluster.lists <= 3


def test_what_was_written_before_a_request_is_in_its_list() -> None:
    survey, cluster = SharedLists(), Cluster()
    first = survey.list_of("Pod", MaxListAge().since(), cluster.read)
    second = survey.list_of("Pod", MaxListAge().since(), cluster.read)
    assert (first.version, second.version) == ("1", "2")
    assert survey.list_of("Node", MaxListAge().since(), cluster.read).version == "3"


def test_entries_of_a_batch_share_a_list_for_a_while() -> None:
    """None is from before the batch, and none is older than a few seconds: later entries see what earlier ones made."""
    survey, cluster = SharedLists(), Cluster()
    survey.list_of("Pod", MaxListAge().since(), cluster.read)
    batch = MaxListAge(0.3)
    versions = [survey.list_of("Pod", batch.since(), cluster.read).version for _ in range(50)]
    assert set(versions) == {"2"}
    time.sleep(0.35)
    assert survey.list_of("Pod", batch.since(), cluster.read).version == "3"


def test_a_list_that_fails_is_not_kept() -> None:
    survey, cluster = SharedLists(), Cluster()

    def fail() -> tuple[list[Object], str]:
        raise OSError

    for _ in range(2):
        try:
            survey.list_of("Pod", MaxListAge().since(), fail)
        except OSError:
            continue
        raise AssertionError
    assert survey.list_of("Pod", MaxListAge().since(), cluster.read).version == "1"


def test_lists_of_other_fields_are_others() -> None:
    """The scheduler's rules count pods that have not ended, and leave that to the API server."""
    survey, cluster = SharedLists(), Cluster()
    batch = MaxListAge(10)
    versions = [survey.list_of("Pod", batch.since(), cluster.read, fields).version for fields in ("", "a=b", "a=b")]
    assert versions == ["1", "2", "2"]
