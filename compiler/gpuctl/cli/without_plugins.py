"""The command line without plugins of pydantic: to look for them reads the metadata of every installed package.

Pydantic's own variable says so. What would look is imported all the same, and with it parsers of archives and of mail:
a tenth of a cold start. So a module that finds nothing stands in its place.
"""

from __future__ import annotations

import os
import sys

from gpuctl.standing_in import StandIn

_SWITCH = "PYDANTIC_DISABLE_PLUGINS"
_LOADER = "pydantic.plugin._loader"


class _NoPlugins(StandIn):
    """The module that looks for plugins, as it behaves when it is told that nobody wants any."""

    def get_plugins(self) -> tuple[()]:
        return ()


def without_plugins() -> None:
    """Look for no plugins in this process, unless its environment says which are wanted."""
    if os.environ.setdefault(_SWITCH, "__all__") in ("__all__", "1", "true"):
        sys.modules.setdefault(_LOADER, _NoPlugins(_LOADER))
