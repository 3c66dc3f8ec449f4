"""Settings as people state them: flags, then the environment (``GPUCTL_SERVER_...``), then a file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, YamlConfigSettingsSource
from yaml import YAMLError

Settings = TypeVar("Settings", bound="StatedSettings")
FILE = "GPUCTL_SERVER_CONFIG"


class SettingsProblem(ValueError):
    """Settings that are none; ``str()`` says which, for people."""


class StatedSettings(BaseSettings):
    """The service's settings, or those of them that a part of it needs."""

    model_config = SettingsConfigDict(env_prefix="GPUCTL_SERVER_")

    @classmethod
    def made(cls: type[Settings], given: Mapping[str, Any]) -> Settings:
        """The settings, with what was given before the environment and the file.

        :raises SettingsProblem: they have errors.
        """
        try:
            return cls(**given)
        except ValidationError as error:
            wrong = (f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors())
            raise SettingsProblem(f"the settings have errors: {'; '.join(wrong)}") from None
        except (OSError, YAMLError) as error:
            raise SettingsProblem(f"the file of settings cannot be read: {error}") from None

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Flags before the environment before the file."""
        path = os.environ.get(FILE)
        return (init_settings, env_settings, *((YamlConfigSettingsSource(settings_cls, path),) if path else ()))
