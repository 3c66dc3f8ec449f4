"""Modules in the place of others that cost more to import than anybody here has of them."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class StandIn(ModuleType):
    """A module in ``sys.modules`` under another one's name: what it has not itself, the real one is imported for."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)
