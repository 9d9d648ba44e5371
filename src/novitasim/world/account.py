"""
What an account keeps besides instances: templates, registry credentials, storages, networks and jobs.

The seeded templates are the ones a demo and a tutorial need: official ones with web ports, some that misbehave, and a
private one with an image that needs credentials. Template ids are numeric text, as the provider's are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from novitasim.world.instance import Env, Port

# Images under this name are private: an instance of one fails to pull without credentials that the account keeps.
PRIVATE_REGISTRY = "registry.example.com/"
# An image with this in its name does not exist.
BROKEN_IMAGE = "broken"


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A recipe that clients copy into a create call."""

    id: str
    name: str
    image: str
    readme: str = ""
    type: str = "instance"
    channel: str = "private"
    image_auth: str = ""
    start_command: str = ""
    entrypoint: str = ""
    rootfs_gb: int = 60
    ports: tuple[Port, ...] = ()
    envs: tuple[Env, ...] = ()
    tools: tuple[tuple[str, Port], ...] = ()
    min_cuda: str = ""
    created_at: int = 1_785_000_000
    # A template that no rule would let pass, shown as it is: for trying a client's distrust.
    verbatim: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryAuth:
    """Credentials of an image registry; the provider shows the password in clear text."""

    id: str
    name: str
    username: str
    password: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageSize:
    """From *at* on, a storage has so many GB; 0 when it is deleted."""

    at: float
    size_gb: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """A network storage; the seeded ones have no `sizes` and cost nothing."""

    id: str
    name: str
    size_gb: int
    cluster_id: str
    sizes: tuple[StorageSize, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Unbilled:
    """The bill has no rows for this owner, although it is charged; `id` is the instance's."""

    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """A private network of a cluster."""

    id: str
    name: str
    cluster_id: str
    segment: str
    created_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SshPort:
    """The loopback port of an instance's ssh server; `id` is the instance's."""

    id: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Work on an instance that takes a while; its state follows from the instants."""

    id: str
    type: str
    instance_id: str
    created_at: float
    done_at: float
    image: str = ""
    broken_at: float | None = None

    def state(self, now: float) -> str:
        """The provider's word for how far it is."""
        if self.broken_at is not None and self.broken_at <= now:
            return "break"
        return "success" if now >= self.done_at else "running"


def _ports(http: tuple[int, ...], tcp: tuple[int, ...]) -> tuple[Port, ...]:
    web = tuple(Port(port=port, type="http") for port in http)
    return web + tuple(Port(port=port, type="tcp") for port in tcp)


_JUPYTER = (("Jupyter", Port(port=8888, type="http")),)

SEEDED_AUTHS = (RegistryAuth(id="3f0c9d0e", name="registry.example.com", username="acme", password="s3cret-s3cret"),)  # noqa: S106  # invented

# Volumes in different clusters, each with the commonest product in stock: enough to try that a volume ties its
# instance to a cluster.
SEEDED_STORAGES = (
    Storage(id="ns-datasets", name="datasets", size_gb=500, cluster_id="us-ca-6"),
    Storage(id="ns-checkpoints", name="checkpoints", size_gb=200, cluster_id="eu-ger-1"),
    Storage(id="ns-models", name="models", size_gb=300, cluster_id="as-sgp-2"),
)

SEEDED_TEMPLATES = (
    Template(
        id="107672",
        name="PyTorch 2.6 with JupyterLab",
        readme="# PyTorch\nPyTorch, CUDA 12.4 and JupyterLab.",
        channel="official",
        image="docker.io/pytorch/pytorch:2.6.0-cuda12.4-cudnn9-runtime",
        ports=_ports((8888,), (22,)),
        envs=(Env(key="JUPYTER_ENABLE_LAB", value="yes"),),
        tools=_JUPYTER,
        min_cuda="12.4",
    ),
    Template(
        id="107701",
        name="vLLM OpenAI server",
        readme="# vLLM\nAn OpenAI-compatible server on port 8080.",
        channel="official",
        image="docker.io/vllm/vllm-openai:v0.9.0",
        start_command="--host 0.0.0.0 --port 8080",
        ports=_ports((8080,), (22,)),
        envs=(Env(key="VLLM_LOGGING_LEVEL", value="INFO"),),
        min_cuda="12.4",
    ),
    Template(
        id="107715",
        name="ComfyUI",
        channel="official",
        image="docker.io/comfy/comfyui:latest",
        ports=_ports((8080, 8888), (22,)),
        tools=_JUPYTER,
    ),
    Template(
        id="150020",
        name="Ubuntu with ssh",
        channel="community",
        image="docker.io/library/ubuntu:24.04",
        ports=_ports((), (22,)),
    ),
    Template(
        id="150031",
        name="Slow starter",
        readme="Answers 502 for five seconds after it runs.",
        channel="community",
        image="docker.io/library/nginx:1.29",
        ports=_ports((8080,), (22,)),
        envs=(Env(key="SIM_GUEST", value="slow:5"),),
    ),
    Template(
        id="150032",
        name="Behind a login",
        readme="Answers 401 with a login page: alive all the same.",
        channel="community",
        image="docker.io/library/nginx:1.29",
        ports=_ports((8080,), (22,)),
        envs=(Env(key="SIM_GUEST", value="login"),),
    ),
    Template(
        id="150033",
        name="Never healthy",
        readme="Runs, and refuses every connection.",
        channel="community",
        image="docker.io/library/nginx:1.29",
        ports=_ports((8080,), (22,)),
        envs=(Env(key="SIM_GUEST", value="refused"),),
    ),
    Template(
        id="150034",
        name="Image that does not exist",
        readme="Its creation fails with a statusError.",
        channel="community",
        image="docker.io/library/broken:1",
        ports=_ports((8080,), (22,)),
    ),
    Template(
        id="204511",
        name="acme-app",
        image=f"{PRIVATE_REGISTRY}acme/app:1.2",
        image_auth="3f0c9d0e",
        ports=_ports((8080,), (22,)),
        envs=(Env(key="MODE", value="prod"),),
        min_cuda="12.4",
    ),
)
