"""Everything at once: Corral's instances beside all that the provider lists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from litestar import Request, Response, get
from litestar.handlers import HTTPRouteHandler
from litestar.openapi import ResponseSpec
from litestar.params import QueryParameter

from corral.api.http.context import context_of
from corral.api.middleware.auth import OPERATOR, VIEWER, check
from corral.base.clock import Clock
from corral.base.settings import ListingSettings
from corral.domain.errors import NotFoundError
from corral.engine.queries.merged_listing import ListingOptions, MergedListing
from corral.views.listing import ComprehensiveList, comprehensive_list


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingServices:
    """What the route of the merged listing needs."""

    listing: MergedListing
    settings: ListingSettings
    clock: Clock


def handlers(services: ListingServices) -> list[HTTPRouteHandler]:
    """The route of the merged listing."""
    defaults = services.settings

    @get(
        "/api/instances/comprehensive",
        summary="Corral's and the provider's instances, merged",
        tags=["instances"],
        opt=VIEWER,
        responses={200: ResponseSpec(data_container=ComprehensiveList, description="Newest first.")},
    )
    async def list_comprehensively(
        request: Request[Any, Any, Any],
        include_novita_only: Annotated[
            bool | None,
            QueryParameter(
                name="includeNovitaOnly",
                description="Whether to list what only the provider knows; DEFAULT_INCLUDE_NOVITA_ONLY when left out.",
            ),
        ] = None,
        sync_local_state: Annotated[
            bool | None,
            QueryParameter(
                name="syncLocalState",
                description="Look at the provider now and record what is seen, for which the role operator is needed; "
                "DEFAULT_SYNC_LOCAL_STATE when left out.",
            ),
        ] = None,
    ) -> Response[bytes]:
        """The provider wins on status, region and ports. An unreachable provider is a warning and no error."""
        began = services.clock.monotonic()
        if not defaults.enabled:
            raise NotFoundError("the merged listing is switched off here (ENABLE_COMPREHENSIVE_LISTING=false)")
        if sync_local_state:
            check(OPERATOR, context_of(request.scope).identity)
        options = ListingOptions(
            include_novita_only=_chosen(include_novita_only, defaults.include_novita_only),
            sync_local_state=_chosen(sync_local_state, defaults.sync_local_state),
        )
        answer = await services.listing.read(options)
        body = comprehensive_list(answer, seconds=services.clock.monotonic() - began)
        return Response(body, media_type="application/json")

    return [list_comprehensively]


def _chosen(asked: bool | None, default: bool) -> bool:  # noqa: FBT001  # a flag is what it is about
    return default if asked is None else asked
