"""The merged listing: InstanceDetails, and beside them the fields that only the provider has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final, cast

import msgspec
from msgspec import UNSET, Meta, UnsetType, field

from corral.domain.costs.meter import may_be_billed
from corral.domain.lifecycle.phases import Phase
from corral.domain.lifecycle.transitions import first_phase
from corral.domain.observation.merge import Consistency, Merged, Source
from corral.domain.observation.sighting import ProviderInstance, Sighting
from corral.domain.placement.catalog import BillingMode
from corral.domain.timing import iso
from corral.views.instance import InstanceView, error_details, port_mappings
from corral.views.schemas import ConnectionDetails, InstanceDetails, PlacementDetails

MASKED: Final = "********"


class EnvironmentName(msgspec.Struct):
    """An environment variable of an instance."""

    key: Annotated[str, Meta(description="Its name.")]
    value: Annotated[str, Meta(description="Always masked: it may be a secret.")] = MASKED


class ListedInstance(InstanceDetails, rename="camel"):
    """
    One instance of the merged listing.

    Of an instance that only the provider has, `id` is the provider's id, and unknown fields are null.
    """

    source: Annotated[Source, Meta(description="Where it is known: Corral alone, the provider alone, or both.")]
    data_consistency: Annotated[
        Consistency,
        Meta(
            description="How Corral's record and the provider's list compare: they agree (`consistent`), Corral knows "
            "more (`local-newer`), the provider does (`novita-newer`), or they contradict each other (`conflicted`)."
        ),
    ]
    last_synced_at: Annotated[str | None, Meta(description="When the provider was last heard of it.")]
    cluster_id: Annotated[str | None, Meta(description="The provider's id of the data centre.")] = None
    cluster_name: Annotated[str | None, Meta(description="The provider's name of the data centre.")] = None
    cpu_num: Annotated[int | None, Meta(description="Virtual CPUs.")] = None
    memory: Annotated[int | None, Meta(description="GB.")] = None
    image_url: Annotated[str | None, Meta(description="The image it runs.")] = None
    volume_mounts: Annotated[list[str], Meta(description="Paths at which volumes are mounted.")] = field(
        default_factory=list[str]
    )
    status_error: Annotated[str | None, Meta(description="The failure that the provider reports.")] = None
    kind: Annotated[str | None, Meta(description="The provider's word for what it is, such as gpu.")] = None
    end_time: Annotated[str | None, Meta(description="When a prepaid instance ends.")] = None
    spot_status: Annotated[str | None, Meta(description="The provider's word for how its spot offer stands.")] = None
    spot_reclaim_time: Annotated[str | None, Meta(description="When a spot instance is taken back.")] = None
    envs: Annotated[list[EnvironmentName], Meta(description="Names of its environment variables.")] = field(
        default_factory=list[EnvironmentName]
    )


class SourceCounts(msgspec.Struct):
    """The number of listed instances by source."""

    local: Annotated[int, Meta(description="Known to Corral alone.")]
    novita: Annotated[int, Meta(description="Known to the provider alone.")]
    merged: Annotated[int, Meta(description="Known to both.")]


class ListingTimes(msgspec.Struct, rename="camel"):
    """Where the time went, in milliseconds; of an answer from the cache, when it was made."""

    total_request_time: Annotated[float, Meta(description="This request, also when the cache answered.")]
    novita_api_time: Annotated[float, Meta(description="Waiting for the provider's list.")]
    local_data_time: Annotated[float, Meta(description="Reading Corral's records, at the same time.")]
    merge_processing_time: Annotated[float, Meta(description="Merging and showing.")]
    cache_hit_ratio: Annotated[float, Meta(description="Of such listings in this process, 0 to 1.")]


class ComprehensiveList(msgspec.Struct):
    """Corral's and the provider's instances, each once, newest first; those that are terminated are left out."""

    instances: list[ListedInstance]
    total: Annotated[int, Meta(description="How many are listed.")]
    sources: SourceCounts
    performance: ListingTimes
    degraded: Annotated[bool, Meta(description="The provider's part is old or missing; `warning` says why.")]
    warning: Annotated[str | UnsetType, Meta(description="Only when degraded.")] = UNSET


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingResult:
    """One merged listing."""

    encoded: bytes
    """The instances, as a JSON list."""
    sources: Mapping[Source, int]
    warning: str | None
    """Why the provider's part is old or missing; None when it is neither."""
    provider_seconds: float
    records_seconds: float
    merging_seconds: float
    hit_ratio: float = 0.0
    """Of the cache, when the result was returned."""


def comprehensive_list(result: ListingResult, *, seconds: float) -> bytes:
    """*result*, returned after *seconds*, as JSON."""
    return msgspec.json.encode(
        ComprehensiveList(
            instances=cast("list[ListedInstance]", msgspec.Raw(result.encoded)),
            total=sum(result.sources.values()),
            sources=SourceCounts(**{source.value: count for source, count in result.sources.items()}),
            performance=ListingTimes(
                total_request_time=_ms(seconds),
                novita_api_time=_ms(result.provider_seconds),
                local_data_time=_ms(result.records_seconds),
                merge_processing_time=_ms(result.merging_seconds),
                cache_hit_ratio=round(result.hit_ratio, 4),
            ),
            degraded=result.warning is not None,
            warning=result.warning or UNSET,
        )
    )


def listed_instance(view: InstanceView, item: Merged, details: InstanceDetails | None) -> ListedInstance:
    """*item* of the merged listing; *details* are those of its record, None when only the provider has it."""
    seen = item.seen
    if details is None:
        assert seen is not None, "an item without a record is listed by the provider"  # noqa: S101
        details = _foreign(view, seen, iso(item.synced_at))
    own = {name: getattr(details, name) for name in InstanceDetails.__struct_fields__}
    listed = ListedInstance(
        **own, source=item.source, data_consistency=item.consistency, last_synced_at=iso(item.synced_at)
    )
    return listed if seen is None else _with_provider_fields(listed, seen)


def _with_provider_fields(listed: ListedInstance, seen: ProviderInstance) -> ListedInstance:
    listed.cluster_id = seen.cluster_id
    listed.cluster_name = seen.cluster_name
    listed.cpu_num = seen.cpu_num
    listed.memory = seen.memory_gb
    listed.image_url = seen.image
    listed.volume_mounts = list(seen.volume_mounts)
    listed.status_error = seen.failure
    listed.kind = seen.kind
    listed.end_time = iso(seen.ends_at)
    listed.spot_status = seen.spot_status
    listed.spot_reclaim_time = iso(seen.spot_reclaim_at)
    listed.envs = [EnvironmentName(key=name) for name in seen.env_names]
    return listed


def _foreign(view: InstanceView, seen: ProviderInstance, seen_at: str | None) -> InstanceDetails:
    """What is shown of an instance that only the provider has."""
    phase = first_phase(seen)
    failed = phase is Phase.FAILED and seen.failure is not None
    return InstanceDetails(
        id=seen.id,
        name=seen.name,
        status=view.status(phase),
        gpu_num=seen.gpu_num or 0,
        rootfs_size=seen.rootfs_gb or 0,
        region=seen.region or "",
        product_id=seen.product_id,
        product_name=seen.product_name or "",
        template_id=None,
        image=None,
        image_auth_id=None,
        command=None,
        entrypoint=None,
        env={},
        secret_names=[],
        ports=None,
        volumes=[],
        min_cuda=None,
        billing_mode=BillingMode(seen.billing_mode) if seen.billing_mode in set(BillingMode) else None,
        price=None,
        billed=may_be_billed(seen),
        port_mappings=port_mappings(seen.endpoints, phase),
        connection_details=ConnectionDetails(),
        novita_instance_id=seen.id,
        created_at=iso(seen.created_at) or seen_at or "",
        created_by=None,
        labels={},
        protected=False,
        started_at=iso(seen.started_at),
        ready_at=None,
        stopped_at=iso(seen.stopped_at),
        data_kept_until=iso(seen.data_kept_until) if seen.sighting is Sighting.EXITED else None,
        estimated_ready_time=None,
        last_seen_at=seen_at,
        stale=False,
        error=error_details("PROVISIONING_FAILED", seen.failure or "") if failed else None,
        reason=None,
        lease=None,
        spot=None,
        health_check=None,
        operation=None,
        allowed_actions=[],
        placement=PlacementDetails(region=seen.region, product_id=seen.product_id, price=None, tried=[]),
        cost=None,
    )


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 1)
