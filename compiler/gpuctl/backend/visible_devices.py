"""``NVIDIA_VISIBLE_DEVICES=void``, which hides the cards of a node from containers that ask for none.

Images that default it to ``all`` would see every card.
"""

from __future__ import annotations

from collections.abc import Collection

from gpuctl.backend.lowering_context import Context
from gpuctl.backend.variables import env_value
from gpuctl.frontend.platform_restrictions import VISIBLE_DEVICES
from gpuctl.objects.api_resources import Object


def no_visible_devices(context: Context, names: Collection[str] = ()) -> list[Object]:
    """Return the variable for a container without GPUs; nothing if the platform has no NVIDIA cards.

    :param names: the container's own variables; one that sets it is kept.
    """
    if "nvidia" not in context.settings.used_vendors or VISIBLE_DEVICES in names:
        return []
    return [env_value(VISIBLE_DEVICES, "void")]
