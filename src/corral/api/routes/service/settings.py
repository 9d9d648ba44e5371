"""The settings in force."""

from __future__ import annotations

from typing import Annotated

import msgspec
from litestar import get
from litestar.handlers import HTTPRouteHandler
from msgspec import Meta

from corral.api.http.bodies import filled
from corral.api.middleware.auth import ADMIN
from corral.base.settings.configuration import settings_shown
from corral.base.settings.settings import Settings


class SettingDetails(msgspec.Struct, rename="camel"):
    """One setting of the process that answers."""

    name: Annotated[str, Meta(description="The name of its environment variable.")]
    group: Annotated[str, Meta(description="The settings that it belongs to.")]
    value: Annotated[str, Meta(description="As text; a secret is masked, and an address is shown up to its host.")]
    default: Annotated[str, Meta(description="Its value when it is not set.")]
    accepts: Annotated[str, Meta(description="The values that it accepts.")]
    meaning: Annotated[str, Meta(description="What it does.")]


class SettingList(msgspec.Struct):
    """Every setting."""

    settings: Annotated[list[SettingDetails], Meta(description="Grouped as in the reference.")]


def handlers(settings: Settings) -> list[HTTPRouteHandler]:
    """The route of `/api/settings`."""
    shown = SettingList(settings=[filled(SettingDetails, each) for each in settings_shown(settings)])

    @get("/api/settings", summary="List settings", tags=["settings"], opt=ADMIN)
    async def list_settings() -> SettingList:
        """Of the process that answers; they change only when it is started again. Secrets are masked."""
        return shown

    return [list_settings]
