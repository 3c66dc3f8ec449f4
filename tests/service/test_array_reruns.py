"""``rerun`` of the failed indexes of an array by REST."""

from __future__ import annotations

from support.cluster_tools import Place, training
from support.served import Served


def test_failed_indexes_of_an_array_run_again_by_rest(served: Served, place: Place) -> None:
    """Index 1 fails; index 0 stays finished in the new Job."""
    place.apply(training("a", array={"size": 2, "parallelism": 2}))
    place.running("a", pods=2)
    for name in place.pods("a"):
        how = "fail" if name.startswith("a-1-") else "complete"
        place.patch("Pod", name, {"metadata": {"annotations": {"gpuctl.test/outcome": how}}})
    place.ended("a")
    where = {"namespace": place.namespace, "failed": "true"}
    served.until(
        "/jobs", lambda value: [item["status"] for item in value["items"]] == ["failed"], namespace=where["namespace"]
    )
    again = served.call("POST", "/jobs/a/rerun", params=where)
    (step,) = again["plan"]["steps"]
    assert step["reason"] == "failed; 1 of 2 indexes run again: 1"
    job = place.get("Job", "a")
    assert (job["status"]["completedIndexes"], job["spec"]["suspend"]) == ("0", False)
