"""The provider's words, and what they are to us."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from corral.cloud.novita import translate, values, wire
from corral.domain.observation.sighting import Connection, Endpoint, ProviderInstance, Sighting
from corral.domain.placement.catalog import BillingMode, PortKind, Product, Volume


def instance(fields: dict[str, object] | None = None, *, detailed: bool = False, **more: object) -> ProviderInstance:
    raw = msgspec.json.encode({"id": "5be2c7d10f9a4436", "status": "running", **(fields or {}), **more})
    found = translate.instance(msgspec.json.decode(raw, type=wire.Instance), detailed=detailed)
    assert found is not None
    return found


def product(**fields: object) -> Product:
    raw = msgspec.json.encode({"id": "4090.16c62g", "name": "RTX 4090 24GB", **fields})
    found = translate.product(msgspec.json.decode(raw, type=wire.Product))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("pending toCreate creating pulling toStart starting toReset resetting", Sighting.BOOTING),
        ("running", Sighting.RUNNING),
        ("toStop stopping freezing frozen", Sighting.STOPPING),
        ("exited", Sighting.EXITED),
        ("toRestart restarting", Sighting.RESTARTING),
        ("toRemove removing", Sighting.REMOVING),
        ("removed", Sighting.ABSENT),
        ("migrating", Sighting.MIGRATING),
        ("defrosting active 17", Sighting.MOVING),
    ],
)
def test_every_word_has_its_sighting(words: str, expected: Sighting) -> None:
    """An unknown status counts as changing and never crashes."""
    seen = [instance(status=word) for word in words.split()]

    assert [found.sighting for found in seen] == [expected] * len(seen)
    assert [found.provider_status for found in seen] == words.split()


def test_numbers_come_as_strings_or_numbers() -> None:
    """The documentation and the live API disagree, so both are read."""
    seen = instance(gpuNum="2", cpuNum=16, memory="62.0", rootfsSize=60)

    assert (seen.gpu_num, seen.cpu_num, seen.memory_gb, seen.rootfs_gb) == (2, 16, 62, 60)


@pytest.mark.parametrize("odd", ["", None, "many", True, [], {}, "1e999", 1.5, -8, 65, 2**31 - 1])
def test_what_is_no_number_is_absent(odd: object) -> None:
    """One odd field must not spoil the instance."""
    assert instance(gpuNum=odd, createdAt="").gpu_num is None


def test_times_say_never_in_two_ways() -> None:
    """The text "0" is never, and "-1" is without end."""
    seen = instance(createdAt="1790000100", lastStoppedAt="0", endTime="-1", lastStartedAt=9e18, spotReclaimTime=0)

    assert seen.created_at == datetime(2026, 9, 21, 14, 15, tzinfo=UTC)
    assert (seen.stopped_at, seen.ends_at, seen.started_at, seen.spot_reclaim_at) == (None, None, None, None)


@pytest.mark.parametrize(
    "written", ["1790604800", 1790604800, "1790604800000", "2026-09-28T14:13:20Z", "2026-09-28T16:13:20+02:00"]
)
def test_the_time_of_a_purge_is_read_in_every_unit(written: object) -> None:
    """It is undocumented: seconds, milliseconds and ISO 8601 are all possible."""
    assert instance(releaseDataAt=written).data_kept_until == datetime(2026, 9, 28, 14, 13, 20, tzinfo=UTC)


@pytest.mark.parametrize(
    "odd", ["0", 0, "", None, "-1", 7, "never", [], {}, True, "99999999999", "1e999", "0001-01-01"]
)
def test_what_cannot_be_the_time_of_a_purge_is_absent(odd: object) -> None:
    assert instance(releaseDataAt=odd, keepDataDay=7, lastStoppedAt="0").data_kept_until is None


def test_without_the_time_of_a_purge_it_is_the_last_stop_and_the_days_that_data_is_kept() -> None:
    """Only the number of days is documented."""
    stopped: dict[str, object] = {"releaseDataAt": "0", "lastStoppedAt": "1790000000"}

    assert instance(stopped, keepDataDay=7).data_kept_until == datetime(2026, 9, 28, 14, 13, 20, tzinfo=UTC)
    assert [instance(stopped, keepDataDay=odd).data_kept_until for odd in (0, -1, "", None, 10**6, 1.5)] == [None] * 6


def test_a_status_error_counts_only_when_it_says_something() -> None:
    """The provider always sends the object; empty texts mean all is well."""
    assert instance(statusError={"state": "", "message": ""}).failure is None
    assert instance(statusError=None).failure is None
    assert instance(statusError={"state": "", "message": "pull failed"}).failure == "pull failed"
    assert instance(statusError={"state": "createFailed", "message": "pull failed"}).failure == (
        "createFailed: pull failed"
    )


def test_endpoints_keep_their_port_also_without_an_address() -> None:
    """Ready needs to know that an address is still to come."""
    seen = instance(
        portMappings=[
            {"port": 8080, "endpoint": "https://x", "type": "http"},
            {"port": "22", "endpoint": "", "type": "tcp"},
            {"port": 9, "type": "quic"},
            {"port": "", "type": "tcp"},
            "nonsense",
        ]
    )

    assert seen.endpoints == (
        Endpoint(port=8080, kind=PortKind.HTTP, address="https://x"),
        Endpoint(port=22, kind=PortKind.TCP, address=None),
        Endpoint(port=9, kind=PortKind.TCP, address=None),
    )


def test_access_details_are_read_from_a_detailed_lookup_only() -> None:
    """A way in that is shut is none, and none of it shows in a log."""
    parts: dict[str, object] = {
        "connectComponentSSH": {"sshCommand": "ssh -p 1 root@h", "password": "s3cret", "isRunning": True},
        "connectComponentJupyter": {"port": 8888, "address": "https://j", "isRunning": False},
        "connectComponentWebTerminal": {"address": "https://t"},
    }
    seen = instance(parts, detailed=True)

    assert seen.connection == Connection(
        ssh_command="ssh -p 1 root@h", jupyter_address=None, web_terminal_address="https://t"
    )
    assert "s3cret" not in repr(seen)
    assert instance(parts).connection is None


def test_access_details_that_are_not_safe_to_copy_are_none() -> None:
    """Users paste the ssh command into a shell and open the addresses in a browser."""
    seen = instance(
        {
            "connectComponentSSH": {"sshCommand": "ssh -p 1 root@h;touch /tmp/x"},
            "connectComponentJupyter": {"address": "javascript:alert(1)"},
            "connectComponentWebTerminal": {"address": "https://t\n"},
        },
        detailed=True,
    )
    with_option = instance({"connectComponentSSH": {"sshCommand": "ssh -oProxyCommand=x root@h -p 7"}}, detailed=True)

    assert seen.connection == Connection(ssh_command=None, jupyter_address=None, web_terminal_address="https://t")
    assert with_option.connection == Connection(ssh_command="ssh -p 7 root@h")


def test_only_names_of_variables_are_kept() -> None:
    """Their values may be secrets."""
    seen = instance(
        envs=[{"key": "TOKEN", "value": "s3cret"}, {"value": "x"}], volumeMounts=[{"mountPath": "/network"}]
    )

    assert (seen.env_names, seen.volume_mounts) == (("TOKEN",), ("/network",))
    assert "s3cret" not in repr(seen)


@pytest.mark.parametrize(
    ("part", "lost"),
    [
        (b'"envs":[{"key":"A"},{"key":"\xff"}]', ("env_names", ("A",))),
        (b'"volumeMounts":[{"mountPath":"\xc3"}]', ("volume_mounts", ())),
        (b'"portMappings":[{"port":80,"endpoint":"\xed\xa0\x80"}]', ("endpoints", ())),
        (b'"statusError":{"state":"\xff"}', ("failure", None)),
    ],
)
def test_a_part_that_is_not_utf_8_is_left_out(part: bytes, lost: tuple[str, object]) -> None:
    """One odd variable must not hide all other instances."""
    raw = b'{"id":"a","status":"running",' + part + b"}"
    found = translate.instance(msgspec.json.decode(raw, type=wire.Instance), detailed=True)

    assert found is not None
    assert getattr(found, lost[0]) == lost[1]
    assert found.sighting is Sighting.RUNNING


def test_a_product_s_regions_and_a_template_s_ports_may_be_anything() -> None:
    """Bytes that are not UTF-8 among them: no region then, and a port that is no number."""
    seen = msgspec.json.decode(b'{"id":"a","regions":["\xff"]}', type=wire.Product)
    found = translate.product(seen)

    assert found is not None
    assert found.regions == ()
    assert values.wholes(msgspec.Raw(b'["\xff"]')) == [None]


def test_an_instance_without_an_id_is_none() -> None:
    """It could not be distinguished from any other."""
    assert translate.instance(wire.Instance(status="running"), detailed=False) is None


@pytest.mark.parametrize(
    ("price", "spot", "on_demand_micro_usd", "spot_micro_usd"),
    [
        ("35000", "18000", 350_000, 180_000),
        (35000, 0, 350_000, None),
        ("0", "", None, None),
        (None, "-5", None, None),
        ("12.5", "x", 125, None),
    ],
)
def test_prices_become_micro_usd_and_zero_is_not_for_sale(
    price: object, spot: object, on_demand_micro_usd: int | None, spot_micro_usd: int | None
) -> None:
    """The provider counts in 1/100000 USD; choosing the cheapest must not choose what is free by mistake."""
    found = product(price=price, spotPrice=spot)

    assert found.price_micro_usd(BillingMode.ON_DEMAND) == on_demand_micro_usd
    assert found.price_micro_usd(BillingMode.SPOT) == spot_micro_usd


def test_a_product_is_not_sold_in_a_way_it_does_not_list() -> None:
    """Some products show a price for a mode they refuse."""
    found = product(price="35000", spotPrice="18000", billingMethods=["onDemand", "monthly"], availableDeploy="true")

    assert (found.on_demand_micro_usd, found.spot_micro_usd, found.available) == (350_000, None, True)


def test_a_volume_is_read_with_its_region() -> None:
    """Sizes come as numbers or texts; without a cluster no instance could mount it."""
    seen = wire.Volume(
        storage_id="ns-1",
        storage_name="data",
        storage_size="500",
        cluster_id="hk-1",
        cluster_name="CN-HK-01 (Hong Kong)",
    )

    assert translate.volume(seen) == Volume(id="ns-1", name="data", size_gb=500, cluster_id="hk-1", region="CN-HK-01")
    assert translate.volume(wire.Volume(storage_id="ns-1", cluster_id="hk-1")) == Volume(
        id="ns-1", name="", size_gb=0, cluster_id="hk-1", region="hk-1"
    )
    assert translate.volume(wire.Volume(storage_id="ns-1")) is None
    assert translate.volume(wire.Volume(cluster_id="hk-1")) is None


def test_a_cluster_without_a_name_goes_by_its_id() -> None:
    """The region must be something a person can write."""
    found = translate.cluster(wire.Cluster(id="us-ca-6"))

    assert found is not None
    assert (found.id, found.region) == ("us-ca-6", "us-ca-6")
    assert translate.cluster(wire.Cluster(name="nowhere")) is None
