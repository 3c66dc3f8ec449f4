"""The usage page of the console, from a database with generated weeks."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

import pytest

from control_plane import ControlPlane
from control_plane.usage_demo import write_past
from control_plane.usage_year import GpuNode
from support.browser import visiting
from support.served import serving

DAYS = 16


@pytest.mark.slow
def test_usage_has_a_curve_a_comparison_and_csv(plane: ControlPlane, tmp_path: Path, browser: Any) -> None:
    database = tmp_path / "usage.db"
    uid = plane.get("namespace", "kube-system")["metadata"]["uid"]
    write_past(database, uid, "demo", DAYS, [GpuNode("gpu-1", "A100-80G", 8), GpuNode("gpu-2", "A100-80G", 8)])
    platform = tmp_path / "platform.yaml"
    prices = "{currency: CNY, models: {A100-80G: 12.5}}"
    platform.write_text(f"kind: platform\nversion: v0.1\nusage: {{prices: {prices}}}\n")
    users: dict[str, Any] = {"admin": ("admin", None, None), "anna": ("user", ("nlp",), None)}
    users |= {"paula": ("admin", None, ("drill",)), "nora": ("viewer", (), None)}
    settings = {"usage_database": str(database), "platform": str(platform)}
    with serving(tmp_path, plane.kubeconfig(), users, **settings) as own:
        with visiting(browser, own) as visit:
            page = visit.log_in().page
            visit.open("/usage")
            page.locator(".chart canvas").wait_for()
            shares = page.locator(".scroll td:nth-child(4)").all_inner_texts()
            # Both weeks are known, so that they can be compared.
            assert shares
            assert any(share.endswith("%") for share in shares)
            page.get_by_role("columnheader", name="Cost, CNY").wait_for()
            held, cost = (page.locator(f".scroll tr:first-child td:nth-child({n})").inner_text() for n in (2, 9))
            assert float(cost.replace(",", "")) == pytest.approx(float(held.replace(",", "")) * 12.5, abs=1.5)
            assert visit.barriers() == []
            rows = _csv(page, "CSV of the table")
            assert [row["value"] for row in rows] == page.locator(".scroll td:first-child").all_inner_texts()
            assert all(float(row["cost"]) > 0 for row in rows)
            assert len(_csv(page, "CSV over time")) > len(rows)
            both = _csv(page, "CSV of both periods")
            assert [row for row in both if row["time"] == rows[0]["time"]] == rows
            assert len({row["time"] for row in both}) == 2
            peak = (
                page.locator(".facts dt", has_text="Most GPUs held, mean of an hour").locator("xpath=..").locator("dd")
            )
            assert 0 < float(peak.inner_text().split()[0]) <= 16
            page.select_option("select[name=range]", "quarter")
            visit.see("Nothing is known about this period.")
            assert re.search(
                r"--from \d{4}-(01|04|07|10)-01T00:00:00Z --to \d{4}-(01|04|07|10)-01T", page.inner_text("main")
            )
            page.select_option("select[name=by]", "label")
            page.select_option("select[name=range]", "24h")
            visit.see("gpuctl usage labels")
            page.locator(".chart canvas").wait_for()
            visit.open("/usage?range=own&first=2026-02-02&last=2026-02-01")
            visit.see("The last day is before the first one.")
            visit.open("/overview")
            visit.see("GPU-hours were held and idle")
            for address in ("/usage", "/usage?by=label", "/overview"):
                assert (address, visit.unreported_failures(address)) == (address, [])
            page.route("**/gpu-aggregation/waste?*", _stale)
            page.reload()
            visit.see("Usage is known until 2026-01-02")
            assert page.locator("td[data-head='Idle GPU-hours']").all_inner_texts() == ["–"]
        with visiting(browser, own) as visit:
            # Only what a token of one namespace may see is asked for.
            visit.log_in("anna").open("/usage?by=model")
            visit.see("gpuctl usage namespaces -n nlp --last 7d")
            visit.page.locator(".chart canvas").wait_for()
            assert visit.page.locator(".scroll td:first-child").all_inner_texts() == ["nlp"]
            assert visit.page.locator("select[name=by] option").count() == 2
        with visiting(browser, own) as visit:
            visit.log_in("nora").open("/usage")
            visit.see("this token has no namespaces")
        with visiting(browser, own) as visit:
            # Usage does not record pools: what a token of some pools may not see is not asked for.
            visit.log_in("paula")
            for address in ("/overview", "/usage?by=node"):
                visit.open(address)
                visit.see("usage is not recorded by pool")


def _stale(route: Any) -> None:
    """Answer as if the collector had not run today: a job holds GPUs, and nothing is known about its use."""
    answer = route.fetch()
    value = answer.json()
    row = {"namespace": "nlp", "workload_type": "Job", "workload_name": "sft", "owner_uid": "1", "gpu_count": 2}
    row |= {"idle_since": value["data"]["start_time"], "idle_gpu_hours": None, "idle_cost": None}
    value["data"] |= {"known_until": "2026-01-02T00:00:00Z", "workloads": [row]}
    route.fulfill(response=answer, json=value)


def _csv(page: Any, button: str) -> list[dict[str, str]]:
    """Press a button and return the rows of the file."""
    with page.expect_download() as download:
        page.get_by_role("button", name=button).click()
    text = download.value.path().read_bytes().decode()
    # Excel takes a file without it for one in the encoding of the system.
    assert text.startswith("\ufeff")
    return list(csv.DictReader(text[1:].splitlines()))
