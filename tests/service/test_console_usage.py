"""The usage page of the console, from a database with generated weeks."""

from __future__ import annotations

import csv
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
    users: dict[str, Any] = {"admin": ("admin", None, None)}
    with (
        serving(tmp_path, plane.kubeconfig(), users, usage_database=str(database)) as own,
        visiting(browser, own) as visit,
    ):
        page = visit.log_in().page
        visit.open("/usage")
        page.locator(".chart canvas").wait_for()
        shares = page.locator("tbody tr td:nth-child(4)").all_inner_texts()
        # Both weeks are known, so that they can be compared.
        assert shares
        assert any(share.endswith("%") for share in shares)
        assert visit.barriers() == []
        with page.expect_download() as download:
            page.get_by_role("link", name="CSV").click()
        rows = list(csv.DictReader(download.value.path().read_text().splitlines()))
        assert {row["level"] for row in rows} == {"namespace"}
        page.select_option("select[name=by]", "label")
        page.select_option("select[name=range]", "24h")
        visit.see("gpuctl usage labels")
        page.locator(".chart canvas").wait_for()
        visit.open("/overview")
        visit.see("GPU-hours were held and idle")
