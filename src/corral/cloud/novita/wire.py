"""
The shapes of the provider's answers, and nothing about their meaning.

Its documentation and its behaviour differ (numbers come as strings, fields come and go, an array is null), so nothing
here is required, unknown fields are passed over, and a part that cannot be read is left out instead of spoiling the
rest. Only what Corral uses is named. `values.py` reads the scalars and parts.
"""

from __future__ import annotations

import msgspec

from corral.cloud.novita.values import Part, Scalar

NOTHING = msgspec.Raw(b"null")


class Problem(msgspec.Struct):
    """The body of a refusal."""

    code: Scalar = None
    reason: Scalar = None
    message: Scalar = None


class Nothing(msgspec.Struct):
    """The answer to a change; its content does not matter and may be empty."""


class Created(msgspec.Struct):
    """The answer to a create."""

    id: Scalar = None


class PortMapping(msgspec.Struct):
    """Where a port is reached."""

    port: Scalar = None
    endpoint: Scalar = None
    type: Scalar = None


class StatusError(msgspec.Struct):
    """Why an instance cannot be used; empty texts when it can."""

    state: Scalar = None
    message: Scalar = None


class Env(msgspec.Struct):
    """A variable of the container."""

    key: Scalar = None
    value: Scalar = None


class VolumeMount(msgspec.Struct):
    """A disk."""

    mount_path: Scalar = msgspec.field(default=None, name="mountPath")


class ConnectComponent(msgspec.Struct, rename="camel"):
    """SSH, Jupyter, a terminal in the browser, or the logs."""

    ssh_command: Scalar = None
    username: Scalar = None
    password: Scalar = None
    address: Scalar = None
    system_log_address: Scalar = None
    instance_log_address: Scalar = None
    is_running: Scalar = None

    def __repr__(self) -> str:
        return "ConnectComponent(...)"


class Instance(msgspec.Struct, rename="camel"):
    """One instance, as the list and the lookup show it."""

    id: Scalar = None
    name: Scalar = None
    status: Scalar = None
    cluster_id: Scalar = None
    cluster_name: Scalar = None
    product_id: Scalar = None
    product_name: Scalar = None
    gpu_num: Scalar = None
    cpu_num: Scalar = None
    memory: Scalar = None
    rootfs_size: Scalar = None
    image_url: Scalar = None
    billing_mode: Scalar = None
    kind: Scalar = None
    end_time: Scalar = None
    spot_status: Scalar = None
    spot_reclaim_time: Scalar = None
    created_at: Scalar = None
    last_started_at: Scalar = None
    last_stopped_at: Scalar = None
    release_data_at: Scalar = None
    keep_data_day: Scalar = None
    port_mappings: Part = NOTHING
    status_error: Part = NOTHING
    envs: Part = NOTHING
    volume_mounts: Part = NOTHING
    ssh: Part = msgspec.field(default=NOTHING, name="connectComponentSSH")
    web_terminal: Part = msgspec.field(default=NOTHING, name="connectComponentWebTerminal")
    jupyter: Part = msgspec.field(default=NOTHING, name="connectComponentJupyter")
    log: Part = msgspec.field(default=NOTHING, name="connectComponentLog")


class Instances(msgspec.Struct):
    """One page of the list."""

    instances: list[Instance] | None = None
    total: Scalar = None


class Product(msgspec.Struct, rename="camel"):
    """One kind of machine."""

    id: Scalar = None
    name: Scalar = None
    cpu_per_gpu: Scalar = None
    memory_per_gpu: Scalar = None
    available_deploy: Scalar = None
    regions: Part = NOTHING
    billing_methods: Part = NOTHING
    price: Scalar = None
    spot_price: Scalar = None


class Products(msgspec.Struct):
    """Every product."""

    data: list[Product] | None = None


class Cluster(msgspec.Struct):
    """One data centre."""

    id: Scalar = None
    name: Scalar = None


class Clusters(msgspec.Struct):
    """Every cluster."""

    data: list[Cluster] | None = None


class Volume(msgspec.Struct, rename="camel"):
    """A network storage, bound to one cluster."""

    storage_id: Scalar = None
    storage_name: Scalar = None
    storage_size: Scalar = None
    cluster_id: Scalar = None
    cluster_name: Scalar = None


class Volumes(msgspec.Struct):
    """One page of the account's network storages."""

    data: list[Volume] | None = None
    total: Scalar = None


class TemplatePorts(msgspec.Struct):
    """The ports of one type."""

    type: Scalar = None
    ports: Part = NOTHING


class Tool(msgspec.Struct):
    """A helper service."""

    name: Scalar = None
    port: Scalar = None
    type: Scalar = None


class Template(msgspec.Struct, rename="camel"):
    """What runs on a machine. Here a part that cannot be read matters, so parts are typed."""

    id: Scalar = msgspec.field(default=None, name="Id")
    name: Scalar = None
    image: Scalar = None
    image_auth: Scalar = None
    start_command: Scalar = None
    entrypoint: Scalar = None
    min_cuda_version: Scalar = None
    ports: list[TemplatePorts] | None = None
    envs: list[Env] | None = None
    tools: list[Tool] | None = None


class ListedTemplate(msgspec.Struct):
    """What is read of a template in a list: only what shows it, so that a broken one hides no other."""

    id: Scalar = msgspec.field(default=None, name="Id")
    name: Scalar = None
    image: Scalar = None
    type: Scalar = None
    ports: Part = NOTHING


class TemplateAnswer(msgspec.Struct):
    """One template; null when there is none."""

    template: Template | None = None


class Templates(msgspec.Struct):
    """A page of templates; the key is singular."""

    template: list[ListedTemplate] | None = None
    total: Scalar = None


class RegistryAuth(msgspec.Struct):
    """The login of an image registry, password and all: read, used and dropped."""

    id: Scalar = None
    username: Scalar = None
    password: Scalar = None

    def __repr__(self) -> str:
        return "RegistryAuth(...)"


class RegistryAuths(msgspec.Struct):
    """Every registry login of the account."""

    data: list[RegistryAuth] | None = None

    def __repr__(self) -> str:
        return "RegistryAuths(...)"


class Measurement(msgspec.Struct):
    """How busy something was at one time."""

    timestamp: Scalar = None
    value: Scalar = None


class OneGpu(msgspec.Struct, rename="camel"):
    """The measurements of one GPU."""

    gpu_id: Scalar = None
    items: Part = NOTHING


class GpuSeries(msgspec.Struct, rename="camel"):
    """The measurements of all GPUs: their average, and each."""

    avg: Part = NOTHING
    gpu_ids: Part = NOTHING


class Measurements(msgspec.Struct, rename="camel"):
    """How busy a machine was."""

    cpu_utilization: Part = NOTHING
    mem_utilization: Part = NOTHING
    root_disk_utilization: Part = NOTHING
    gpu_utilization: Part = NOTHING
    gpu_mem_utilization: Part = NOTHING
