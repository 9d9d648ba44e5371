"""Responses to requests about the whole fleet: stopping it, and reading the provider's list now."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from corral.views.schemas import Time


class StoppedInstance(msgspec.Struct, rename="camel"):
    """An instance that will be stopped."""

    instance_id: str
    name: str
    status: str
    operation_id: str


class RefusedInstance(msgspec.Struct, rename="camel"):
    """An instance that will not be stopped."""

    instance_id: str
    name: str
    code: Annotated[str, Meta(description="Why, for programs: as the stop of this one instance returns it.")]
    message: Annotated[str, Meta(description="Why, for people.")]


class StoppedFleet(msgspec.Struct):
    """What became of each instance; those that were stopped or are going already are in neither list."""

    stopped: Annotated[list[StoppedInstance], Meta(description="Recorded; they will be stopped.")]
    refused: Annotated[list[RefusedInstance], Meta(description="Those that may run on: stop or delete them later.")]


class SyncedFleet(msgspec.Struct, rename="camel"):
    """A listing of the provider's account that was recorded."""

    listed: Annotated[int, Meta(description="How many machines the provider listed, also those of others.")]
    complete: Annotated[bool, Meta(description="Whether every page of the list could be read.")]
    listed_at: Annotated[Time, Meta(description="When the listing began.")]
