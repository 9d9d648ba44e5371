"""What the service answers about products and templates."""

from __future__ import annotations

import msgspec


class Product(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One product; prices are USD per GPU-hour."""

    id: str
    name: str
    available: bool
    regions: list[str] = []
    cpu_per_gpu: int
    memory_per_gpu: int
    price_per_gpu: float | None = None
    spot_price_per_gpu: float | None = None
    on_demand_price_per_gpu: float | None = None


class ProductList(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Products, cheapest first."""

    products: list[Product]


class OpenPort(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A port a template opens."""

    port: int
    type: str


class Tool(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A helper service beside the container."""

    name: str
    port: int
    type: str


class Template(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What runs on the machine."""

    id: str
    name: str
    image: str
    image_auth_id: str | None = None
    ports: list[OpenPort] = []
    tools: list[Tool] = []
    env_names: list[str] = []
    start_command: str = ""
    entrypoint: str = ""
    min_cuda_version: str = ""


class ListedTemplate(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A template by its name; `channel` is `private` for the account's own, `official` for the provider's."""

    id: str
    name: str
    image: str = ""
    channel: str = ""


class TemplateList(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Templates to choose from."""

    templates: list[ListedTemplate]
