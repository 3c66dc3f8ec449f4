"""Shares of cards: of a pod, and a vendor's resources for them."""

import json
from fractions import Fraction

from pydantic import Field

from gpuctl.language.amount_fields import Memory, Percentage, Share
from gpuctl.language.fields import Block, LabelKey
from gpuctl.language.gpu_cards import parse_share


class GpuShare(Block):
    """Part of each card of a pod."""

    memory: Share = Field(description="GPU memory, or a fraction of it.", examples=["8Gi", "50%"])
    cores: Percentage | None = Field(
        None,
        description="Part of the compute cores. Default: not limited, or as the sharing system defines it.",
        examples=["30%"],
    )

    @property
    def text(self) -> str:
        """The short form; JSON for a share that limits cores."""
        return self.memory if self.cores is None else json.dumps({"memory": self.memory, "cores": self.cores})

    @property
    def amount(self) -> Fraction:
        """Memory in bytes, or as a fraction of the card if at most 1."""
        return parse_share(self.memory) or Fraction(1)

    @property
    def core_part(self) -> Fraction | None:
        """Part of the compute cores; None if it is not limited."""
        return None if self.cores is None else Fraction(self.cores.rstrip("% ")) / 100

    @property
    def is_part(self) -> bool:
        """True if it is less than the whole card."""
        return self.amount != 1 or (self.core_part or 1) != 1


class VendorShare(Block):
    """Resources of shares of a vendor's cards. The vendor's `resource` is their number."""

    memory: LabelKey = Field(description="Memory of each share.", examples=["example.com/gpu-memory"])
    unit: Memory = Field("1Mi", description="Memory that one of it stands for.", examples=["256Mi"])
    percent: LabelKey | None = Field(
        None,
        description="Memory of each share in percent of its card. Default: none, so that a fraction of a card is an "
        "error.",
        examples=["example.com/gpu-memory-percentage"],
    )
    cores: LabelKey | None = Field(
        None,
        description="Compute cores of each share, in percent. Default: none, so that `gpu-share.cores` is an error.",
        examples=["example.com/gpu-cores"],
    )
