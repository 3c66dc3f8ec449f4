"""The platform's ``gpu``: vendors, GPU types and shares."""

from typing import Annotated, Literal

from pydantic import Field

from gpuctl.language.fields import (
    Block,
    DnsLabel,
    GpuProfile,
    LabelKey,
    LabelValue,
    NonEmpty,
    ObjectName,
    RequiredLabelValue,
    empty_dict,
)
from gpuctl.language.gpu_share_block import VendorShare


class Vendor(Block):
    """Kubernetes names for a vendor's GPUs."""

    resource: LabelKey = Field(
        description="Extended resource that the vendor's device plugin advertises.", examples=["nvidia.com/gpu"]
    )
    taint: LabelKey | None = Field(
        None,
        description="Key of the taint on GPU nodes to tolerate. Default: the resource.",
        examples=["nvidia.com/gpu"],
    )
    productLabel: LabelKey | None = Field(  # noqa: N815
        None,
        description="Node label with the product's name, as the vendor's feature discovery writes it.",
        examples=["nvidia.com/gpu.product"],
    )
    share: VendorShare | None = Field(
        None,
        description="Resources by which the `sharing` system hands out shares of the cards. Default: the built-in ones "
        "of the resource, if it is known.",
        examples=[{"memory": "example.com/gpu-memory", "cores": "example.com/gpu-cores"}],
    )


class GpuBlock(Block):
    """GPUs of the platform."""

    default: DnsLabel | None = Field(
        None,
        description="Vendor of jobs and quotas that name none. Default: nvidia.",
        examples=["ascend"],
    )
    vendors: dict[DnsLabel, Vendor] = Field(
        default_factory=empty_dict,
        description="Vendors in addition to the built-in nvidia, amd, ascend, intel, cambricon, hygon, mthreads, "
        "iluvatar, metax, kunlunxin, enflame, biren and vastai, or in place of them. A vendor only affects jobs that "
        "name it, unless it is the `default`.",
        examples=[{"nvidia": {"resource": "nvidia.com/gpu"}}],
    )
    types: dict[RequiredLabelValue, dict[LabelKey, LabelValue | list[LabelValue]]] = Field(
        default_factory=empty_dict,
        description="GPU type -> node labels, for clusters with feature discovery's labels instead of gpuctl's.",
        examples=[{"A100-80G": {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}}],
    )
    profiles: dict[RequiredLabelValue, list[GpuProfile]] = Field(
        default_factory=empty_dict,
        description="GPU type -> MIG profiles, in place of the built-in table (A30, A100, H100, H20, H200, B200, B300, "
        "GB200, GB300, RTX PRO 6000), which recognises a type by its name. Quotas with `gpu` limit the profiles listed "
        "here to 0, unless `gpu-profiles` has a number for them.",
        examples=[{"A100-80G": ["1g.10gb", "3g.40gb"]}],
    )
    allocation: Literal["device-plugin", "dra"] = Field(
        "device-plugin",
        description="How pods get their GPUs. `device-plugin`: as an extended resource such as `nvidia.com/gpu`. "
        "`dra`: by a claim for devices of a driver (Dynamic Resource Allocation), from a ResourceClaimTemplate. It "
        "needs `kubernetes.version` 1.34 or newer.",
        examples=["dra"],
    )
    classes: dict[DnsLabel, ObjectName] = Field(
        default_factory=empty_dict,
        description="Vendor -> DeviceClass of its whole cards, with `allocation: dra`. Built in: nvidia -> "
        "`gpu.nvidia.com`, amd -> `gpu.amd.com`, intel -> `gpu.intel.com`.",
        examples=[{"nvidia": "gpu.nvidia.com"}],
    )
    profileClass: ObjectName | None = Field(  # noqa: N815
        None,
        description="DeviceClass of MIG slices (`gpu-profile`), with `allocation: dra`. It has the slices of all "
        "profiles: claims select one by the attribute `profile` of NVIDIA's driver. Default: `mig.nvidia.com`.",
        examples=["mig.nvidia.com"],
    )
    products: dict[RequiredLabelValue, Annotated[list[NonEmpty], Field(min_length=1)]] = Field(
        default_factory=empty_dict,
        description="GPU type -> product names that the driver reports (`productName` in ResourceSlices; Intel's: "
        "`model`), with `allocation: dra`. Claims then select cards by name, and of several types the first with "
        "enough free cards. Types that are not listed are selected by labels of nodes.",
        examples=[{"A100-80G": ["NVIDIA A100-SXM4-80GB", "NVIDIA A100 80GB PCIe"]}],
    )
    sharing: Literal["none", "hami", "volcano"] = Field(
        "none",
        description="System that enforces `gpu-share`, and whose resources jobs request. With `hami`, whole cards have "
        "its names, too, such as `hygon.com/dcunum`; with `volcano`, those of Ascend.",
        examples=["hami"],
    )
