"""The resources of cards and shares of each vendor: the table, and pods that are lowered by it."""

from __future__ import annotations

import json
import re
from fractions import Fraction

import pytest

import gpuctl
from gpuctl.language.gpu_cards import CARDS, VENDORS, chip_of, every_share, parse_share
from support.pages import ROOT

PLATFORM = "kind: platform\nversion: v0.1\ngpu: {{sharing: {}}}\n"
JOB = (
    "kind: notebook\nversion: v0.1\njob: {{name: lab}}\nenvironment: {{image: app:1}}\n"
    "resources: {{gpu: 1, cpu: 8, memory: 64Gi, {}}}\n"
)


def amounts(sharing: str, resources: str) -> dict[str, str]:
    """Return the extended resources of a notebook's container."""
    sources = [gpuctl.Source("platform.yaml", PLATFORM.format(sharing)), gpuctl.Source("a.yaml", JOB.format(resources))]
    found = gpuctl.compile(sources)
    assert [item.code for item in found.diagnostics if item.severity == "error"] == []
    (workload,) = (item for item in found.objects if item["kind"] == "StatefulSet")
    (container,) = workload["spec"]["template"]["spec"]["containers"]
    return {name: amount for name, amount in container["resources"]["limits"].items() if "/" in name}


@pytest.mark.parametrize(
    ("sharing", "resources", "expected"),
    [
        ("none", "gpu-vendor: ascend, gpu-type: 910B3", {"huawei.com/Ascend910": "1"}),
        ("none", "gpu-vendor: ascend, gpu-type: Ascend310P3", {"huawei.com/Ascend310P": "1"}),
        ("none", "gpu-vendor: hygon", {"hygon.com/dcu": "1"}),
        ("none", "gpu-vendor: kunlunxin", {"kunlunxin.com/xpu": "1"}),
        ("hami", "gpu-vendor: hygon", {"hygon.com/dcunum": "1"}),
        ("hami", "gpu-vendor: hygon, gpu-share: 8Gi", {"hygon.com/dcunum": "1", "hygon.com/dcumem": "8192"}),
        (
            *("hami", "gpu-vendor: cambricon, gpu-share: {memory: 5000Mi, cores: 10%}"),
            {
                "cambricon.com/vmlu": "1",
                "cambricon.com/mlu.smlu.vmemory": "20",
                "cambricon.com/mlu.smlu.vcore": "10",
            },
        ),
        (
            *("hami", "gpu-vendor: mthreads, gpu-share: {memory: 10Gi, cores: 50%}"),
            {"mthreads.com/vgpu": "1", "mthreads.com/sgpu-memory": "32", "mthreads.com/sgpu-core": "8"},
        ),
        (
            *("hami", "gpu-vendor: kunlunxin, gpu-share: 0.3"),
            {"kunlunxin.com/vxpu": "1", "kunlunxin.com/vxpu-memory": "49152"},
        ),
        ("hami", "gpu-vendor: kunlunxin", {"kunlunxin.com/xpu": "1"}),
        ("hami", "gpu-vendor: metax", {"metax-tech.com/gpu": "1"}),
        ("hami", "gpu-vendor: metax, gpu-share: 4Gi", {"metax-tech.com/sgpu": "1", "metax-tech.com/vmemory": "4"}),
        (
            *("hami", "gpu-vendor: enflame, gpu-share: {memory: 20Gi, cores: 40%}"),
            {"enflame.com/gcu-memory": "20480", "enflame.com/gcu-core": "40"},
        ),
        ("hami", "gpu-share: {memory: 100%, cores: 25%}", {"nvidia.com/gpu": "1", "nvidia.com/gpucores": "25"}),
        ("volcano", "gpu-vendor: hygon", {"hygon.com/dcu": "1"}),
        (
            *("volcano", "gpu-share: {memory: 20%, cores: 10%}"),
            {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory-percentage": "20", "volcano.sh/vgpu-cores": "10"},
        ),
    ],
)
def test_resources_of_vendors(sharing: str, resources: str, expected: dict[str, str]) -> None:
    assert amounts(sharing, resources) == expected


@pytest.mark.parametrize("share", ["4Gi", {"memory": "100%", "cores": "25%"}], ids=["memory", "memory and cores"])
def test_share_of_a_card_is_lifted(share: str | dict[str, str]) -> None:
    platform = gpuctl.Source("platform.yaml", PLATFORM.format("hami"))
    found = gpuctl.compile([platform, gpuctl.Source("a.yaml", JOB.format(f"gpu-share: {json.dumps(share)}"))])
    (document,) = gpuctl.lift(found.objects, found.settings)
    assert document["resources"]["gpu-share"] == share


@pytest.mark.parametrize(
    ("gpu_type", "chip"),
    [
        ("910B3", "910B3"),
        ("Ascend910B3-64G", "910B3"),
        ("Atlas-800T_910b4", "910B4"),
        ("910B4-1", "910B4-1"),
        ("910B4-16G", "910B4"),
        ("Ascend310P3", "310P"),
        ("910B", None),
        ("A100-80G", None),
    ],
)
def test_chip_in_the_name_of_a_gpu_type(gpu_type: str, chip: str | None) -> None:
    assert chip_of(gpu_type, CARDS["hami"]["ascend"]) == chip


@pytest.mark.parametrize(
    ("text", "amount"),
    [("20%", Fraction(1, 5)), ("0.2", Fraction(1, 5)), ("2Gi", Fraction(2**31)), ("2Gi%", None), ("20 %", None)],
)
def test_notations_of_a_share(text: str, amount: Fraction | None) -> None:
    assert parse_share(text) == amount


@pytest.mark.parametrize("page", ["docs/recipes.md", "docs/recipes.zh-CN.md"])
def test_pages_list_the_resources_of_hami(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    listed = {re.sub("BI-V150|910B3", "CHIP", name) for name in re.findall(r"`([\w.-]+/[\w.-]+)`", text)}
    shares = {name for system, share in every_share() if system == "hami" for name in (share.number, *share.parts)}
    whole = {card.resource for chips in CARDS["hami"].values() for card in chips.values()}
    chips = "|".join(chip for vendor in CARDS["hami"].values() for chip in vendor if chip)
    assert {re.sub(chips, "CHIP", name) for name in shares | whole if name} <= listed
    assert CARDS["hami"].keys() <= VENDORS.keys()
