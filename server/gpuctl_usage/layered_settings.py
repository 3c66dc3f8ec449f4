"""Settings from three layers: flags, then the environment (``GPUCTL_SERVER_...``), then a file."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

from pydantic import ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, YamlConfigSettingsSource
from yaml import YAMLError

from gpuctl.language.spelling import nearest

Settings = TypeVar("Settings", bound="LayeredSettings")
_PREFIX = "GPUCTL_SERVER_"
FILE = "GPUCTL_SERVER_CONFIG"


class SettingsProblem(ValueError):
    """Invalid settings; ``str()`` is the message for the user."""


class LayeredSettings(BaseSettings):
    """Base of the service's settings and of those of its parts."""

    model_config = SettingsConfigDict(env_prefix=_PREFIX)
    known_prefix: ClassVar[str] = "GPUCTL_SERVER_USAGE_"
    """Every environment variable with this prefix must be a setting of the class."""

    @classmethod
    def made(cls: type[Settings], given: Mapping[str, Any]) -> Settings:
        """Return the settings; ``given`` takes precedence over the environment and the file.

        :raises SettingsProblem: the settings are invalid or the file cannot be read.
        """
        cls._refuse_unknown_variables()
        try:
            return cls(**given)
        except ValidationError as error:
            wrong = (f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors())
            raise SettingsProblem(f"invalid settings: {'; '.join(wrong)}") from None
        except (OSError, YAMLError) as error:
            raise SettingsProblem(f"the settings file cannot be read: {error}") from None

    @classmethod
    def _refuse_unknown_variables(cls) -> None:
        """Raise SettingsProblem if the environment has a variable of this prefix that is not a setting."""
        known = {f"{_PREFIX}{name.upper()}" for name in cls.model_fields} | {FILE}
        unknown = sorted(name for name in os.environ if name.upper().startswith(cls.known_prefix))
        told = []
        for name in unknown:
            if name.upper() not in known:
                close = nearest(name, sorted(known))
                told.append(f"`{name}`" + (f" (did you mean `{close}`?)" if close else ""))
        if told:
            links = any(re.search(r"_SERVICE_HOST$|_PORT_[0-9]+_TCP$", name) for name in unknown)
            hint = "; set `enableServiceLinks: false` in the pod's spec" if links else ""
            raise SettingsProblem(f"unknown settings in the environment: {', '.join(told)}{hint}")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        path = os.environ.get(FILE)
        return (init_settings, env_settings, *((YamlConfigSettingsSource(settings_cls, path),) if path else ()))
