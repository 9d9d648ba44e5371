"""What a create request means with the provider's templates and volumes: the container to run, and where it may run."""

from __future__ import annotations

from dataclasses import replace

from corral.domain.container import AS_TEMPLATE, merge_problems, merged
from corral.domain.errors import CallerError, SpecInvalidError
from corral.domain.instance import CreateRequest
from corral.domain.placement.catalog import Template, find_cluster
from corral.domain.placement.rank import PlacementRequest
from corral.domain.requests.create import placement_request
from corral.engine.queries.catalog import Catalog


async def resolve(catalog: Catalog, request: CreateRequest) -> tuple[Template, PlacementRequest]:
    """
    The container that *request* runs, and what the choice of an offer depends on.

    Raises CallerError when a template or volume does not exist, volumes are in several clusters, or the template and
    the request together are more than the provider takes; and CloudRefusedError for a template that cannot be used.
    """
    wanted, container = placement_request(request), request.container
    if container is None and not request.secret_names:
        return await catalog.template(request.template_id), wanted
    container = container or AS_TEMPLATE
    template = await catalog.template(request.template_id) if request.template_id else None
    runs = merged(template, container)
    problems = merge_problems(runs, request.secret_names)
    if problems:
        raise SpecInvalidError(problems)
    if container.volumes:
        wanted = replace(wanted, cluster_id=await catalog.volumes.cluster_of(container.volumes))
    return runs, wanted


async def check_regions(catalog: Catalog, wanted: PlacementRequest) -> None:
    """Raise CallerError VOLUME_ELSEWHERE if no region of *wanted* is the one that its volumes are in."""
    if wanted.cluster_id is None:
        return
    clusters = await catalog.clusters()
    if any(found.id == wanted.cluster_id for each in wanted.regions if (found := find_cluster(each, clusters))):
        return
    place = next((cluster.region for cluster in clusters if cluster.id == wanted.cluster_id), wanted.cluster_id)
    raise CallerError(
        f"the volumes are in {place}, which is not one of the regions of this request: {', '.join(wanted.regions)}",
        code="VOLUME_ELSEWHERE",
        details={"region": place},
    )
