"""
The SDK: what a Python program needs to use a running Corral. Imports nothing of the service.

`Client` and `AsyncClient` have the same surface; start there. `errors` draws the tree of what can go wrong.
"""

from corral_client.client import AsyncClient
from corral_client.errors import (
    Ambiguous,
    Conflict,
    ConnectionFailed,
    CorralApiError,
    CorralError,
    FieldError,
    InstanceFailed,
    Invalid,
    NotFound,
    OutOfStock,
    RateLimited,
    ServerError,
    Unauthorised,
    WaitTimeout,
)
from corral_client.instances import AsyncInstanceHandle
from corral_client.models.costs import (
    Amount,
    CostGroup,
    CostRest,
    CostSummary,
    DayReconciliation,
    MachineReconciliation,
)
from corral_client.models.instances import Action, Created, Event, Instance, Operation, Plan, Progress, VolumeMount
from corral_client.models.leases import LastUse, Lease, LeaseIdle, LeaseQuiet, LeaseSchedule
from corral_client.models.machines import (
    Credentials,
    GpuMetrics,
    ImagePull,
    Jupyter,
    MachineUse,
    Metrics,
    Sample,
    SshLogin,
    Utilization,
    Volume,
    WebTerminal,
)
from corral_client.models.records import AuditLine, Delivery, Identity, Orphan, OrphanReport, StuckInstance
from corral_client.models.resources import Health, Job, JobStats, ListedTemplate, Processing, Product, Template
from corral_client.sync.client import Client
from corral_client.sync.instances import InstanceHandle
from corral_client.watching import Aim

__all__ = [
    "Action",
    "Aim",
    "Ambiguous",
    "Amount",
    "AsyncClient",
    "AsyncInstanceHandle",
    "AuditLine",
    "Client",
    "Conflict",
    "ConnectionFailed",
    "CorralApiError",
    "CorralError",
    "CostGroup",
    "CostRest",
    "CostSummary",
    "Created",
    "Credentials",
    "DayReconciliation",
    "Delivery",
    "Event",
    "FieldError",
    "GpuMetrics",
    "Health",
    "Identity",
    "ImagePull",
    "Instance",
    "InstanceFailed",
    "InstanceHandle",
    "Invalid",
    "Job",
    "JobStats",
    "Jupyter",
    "LastUse",
    "Lease",
    "LeaseIdle",
    "LeaseQuiet",
    "LeaseSchedule",
    "ListedTemplate",
    "MachineReconciliation",
    "MachineUse",
    "Metrics",
    "NotFound",
    "Operation",
    "Orphan",
    "OrphanReport",
    "OutOfStock",
    "Plan",
    "Processing",
    "Product",
    "Progress",
    "RateLimited",
    "Sample",
    "ServerError",
    "SshLogin",
    "StuckInstance",
    "Template",
    "Unauthorised",
    "Utilization",
    "Volume",
    "VolumeMount",
    "WaitTimeout",
    "WebTerminal",
]
