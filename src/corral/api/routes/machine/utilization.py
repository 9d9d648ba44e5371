"""Routes that show how busy machines are."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Final

from litestar import get
from litestar.handlers import HTTPRouteHandler
from litestar.openapi import ResponseSpec
from litestar.params import FromPath, QueryParameter

from corral.api.http.bodies import JsonResponse
from corral.api.middleware.auth import VIEWER
from corral.engine.machine.fleet_utilization import FleetUtilizationQueries
from corral.engine.machine.metrics import MetricQueries
from corral.views.utilization import InstanceMetrics, UtilizationDetails, machine_utilization

MOST_MINUTES: Final = 1440


def handlers(measured: MetricQueries, fleet: FleetUtilizationQueries) -> list[HTTPRouteHandler]:
    """The routes of `/api/instances/{id}/metrics` and `/api/utilization`."""

    @get(
        "/api/instances/{instance_id:str}/metrics",
        summary="Get how busy an instance was",
        tags=["machines"],
        opt=VIEWER,
        responses={200: ResponseSpec(data_container=InstanceMetrics, description="At most 240 measurements a series.")},
    )
    async def get_instance_metrics(
        instance_id: FromPath[str],
        minutes: Annotated[int, QueryParameter(ge=1, le=MOST_MINUTES, description="How far to go back.")] = 60,
    ) -> JsonResponse:
        """
        The use of GPUs, their memory, CPUs, memory and disk, in percent, as the provider measured it.

        An answer is reused for 30 s. The calls use a share of the rate limit (`CORRAL_METRICS_SHARE`); when it is used
        up, the answer is 502 with `Retry-After`.
        """
        return JsonResponse(status=HTTPStatus.OK, body=await measured.of_instance(instance_id, minutes))

    @get("/api/utilization", summary="Get how busy every machine is", tags=["machines"], opt=VIEWER)
    async def get_utilization() -> UtilizationDetails:
        """
        The newest measurements of every running machine that this process knows; it does not wait for the provider.

        Each request has the due ones read in the background, within a share of the rate limit
        (`CORRAL_METRICS_SHARE`), so the first answers have nulls. Without requests nothing is read.
        """
        found = await fleet.current()
        listed = [
            machine_utilization(machine.instance_id, machine.name, measured) for machine, measured in found.machines
        ]
        return UtilizationDetails(instances=listed, sampled_every=found.every_seconds)

    return [get_instance_metrics, get_utilization]
