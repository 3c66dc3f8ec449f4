"""MIG profiles: which a GPU type has, and the names of their resources."""

from __future__ import annotations

import pytest

from gpuctl.language.mig_profiles import (
    KNOWN_PROFILES,
    is_profile,
    nearest_profile,
    profile_of,
    profiles_of,
    resource_of,
)


@pytest.mark.parametrize(
    ("gpu_type", "profile", "is_legal"),
    [
        ("A100-40G", "1g.5gb", True),
        ("A100-80G", "1g.5gb", False),
        ("A100", "1g.5gb", True),
        ("A100", "7g.80gb", True),
        ("NVIDIA-A100-SXM4-80GB", "1g.10gb", True),
        ("NVIDIA-H100-80GB-HBM3", "1g.12gb", False),
        ("H100-94G", "3g.47gb", True),
        ("H200", "7g.141gb", True),
        ("B200-192G", "2g.45gb", True),
        ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", "2g.48gb", True),
    ],
)
def test_profiles_follow_the_model_and_memory_in_the_name(gpu_type: str, profile: str, is_legal: bool) -> None:
    assert (profile in profiles_of(gpu_type, {})) == is_legal


def test_types_without_a_known_model_have_no_known_profiles() -> None:
    assert profiles_of("L40S-48G", {}) == ()
    assert profiles_of("fast", {"fast": ["1g.5gb"]}) == ("1g.5gb",)
    assert profiles_of("A100-80G", {"A100-80G": ["1g.10gb"]}) == ("1g.10gb",)


def test_resources_are_read_back_as_profiles() -> None:
    for profile in (*KNOWN_PROFILES, "1g.24gb+me.all", "1g.24gb-me", "2g.48gb+gfx"):
        assert is_profile(profile)
        assert profile_of(resource_of(profile)) == profile
        assert nearest_profile(resource_of(profile)) == profile
    assert resource_of("1g.10gb+me") == "nvidia.com/mig-1g.10gb.me"
    assert profile_of("nvidia.com/gpu") is None
    assert profile_of("nvidia.com/mig-8g.10gb") is None
