"""Look at what was asked of instances, and how far it is."""

from __future__ import annotations

from litestar import get
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath

from corral.api.middleware.auth import VIEWER
from corral.engine.queries.instances import InstanceQueries
from corral.views.instance import operation_details
from corral.views.schemas import OperationDetails, OperationList


def handlers(reading: InstanceQueries) -> list[HTTPRouteHandler]:
    """The routes of `/api/operations`."""

    @get("/api/operations/{operation_id:str}", summary="One operation", tags=["operations"], opt=VIEWER)
    async def get_operation(operation_id: FromPath[str]) -> OperationDetails:
        """What was asked, and which steps were reached when."""
        return operation_details(await reading.operation(operation_id))

    @get(
        "/api/instances/{instance_id:str}/operations",
        summary="Operations of one instance",
        tags=["operations"],
        opt=VIEWER,
    )
    async def list_operations(instance_id: FromPath[str]) -> OperationList:
        """The last hundred, newest first."""
        return OperationList(operations=[operation_details(o) for o in await reading.operations_of(instance_id)])

    return [get_operation, list_operations]
