"""Every documented rule of a create call."""

from __future__ import annotations

from typing import Any

import pytest

from novitasim.api import create_request
from novitasim.api.refusal import RefusalError
from novitasim.settings import Settings, changed
from novitasim.world.instance import Port

GOOD: dict[str, object] = {
    "name": "worker-a1",
    "productId": "4090.16c62g",
    "gpuNum": 1,
    "rootfsSize": 60,
    "imageUrl": "docker.io/acme/app:1.2",
    "kind": "gpu",
}


def test_a_good_body_becomes_an_order_with_defaults() -> None:
    read = create_request.read(GOOD | {"ports": "8080/http, 22/tcp"}, Settings())

    assert read.ports == (Port(port=8080, type="http"), Port(port=22, type="tcp"))
    assert (read.billing_mode, read.cluster_id, read.envs) == ("onDemand", "", ())


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("gpuNum", 0, "between 1 and 8"),
        ("gpuNum", 9, "between 1 and 8"),
        ("gpuNum", None, "must be an integer"),
        ("gpuNum", True, "must be an integer"),
        ("rootfsSize", 6145, "between 0 and 6144"),
        ("productId", "", "length must be between 1 and 255"),
        ("imageUrl", "x" * 501, "length must be between 1 and 500"),
        ("name", "x" * 256, "length"),
        ("name", 7, "must be a string"),
        ("kind", "tpu", "must be gpu or cpu"),
        ("kind", None, "length"),
        ("ports", "80", "not PORT/TYPE"),
        ("ports", "80/udp", "tcp or http"),
        ("ports", "2222/tcp", "not 2222, 2223 or 2224"),
        ("ports", "0/tcp", "1-65535"),
        ("ports", "70000/tcp", "1-65535"),
        ("ports", ["80/http"], "must be a string"),
        ("ports", ",".join(f"{n}/tcp" for n in range(1, 17)), "at most 15"),
        ("envs", [{"key": "k", "value": "v"}] * 101, "at most 100"),
        ("envs", [{"key": "k" * 512, "value": "v"}], "length"),
        ("envs", {"k": "v"}, "array of objects"),
        ("billingMode", "weekly", "onDemand, monthly or spot"),
        ("command", "x" * 2048, "length"),
        ("networkStorages", [{"Id": "n"}] * 31, "at most 30"),
        ("month", -1, "between 0"),
        ("tools", [{"name": "Jupyter", "port": "2223", "type": "http"}], "2222, 2223"),
    ],
)
def test_a_breach_is_refused_with_the_field_and_the_rule(field: str, value: Any, words: str) -> None:
    with pytest.raises(RefusalError, match=words) as refused:
        create_request.read(GOOD | {field: value}, Settings())

    assert (refused.value.reason, refused.value.status) == ("VALIDATOR_PARAM", 400)


def test_a_small_disk_becomes_the_smallest() -> None:
    assert create_request.read(GOOD | {"rootfsSize": 3}, Settings()).rootfs_gb == 10


def test_months_force_monthly_billing() -> None:
    assert create_request.read(GOOD | {"month": 2, "billingMode": "spot"}, Settings()).billing_mode == "monthly"


def test_numbers_may_be_text_as_in_protobuf_json() -> None:
    assert create_request.read(GOOD | {"gpuNum": "2"}, Settings()).gpus == 2


def test_a_cpu_instance_needs_neither_gpus_nor_a_disk() -> None:
    read = create_request.read(
        {"kind": "cpu", "productId": "cpu.2c4g", "imageUrl": "docker.io/library/alpine:3"}, Settings()
    )

    assert (read.gpus, read.rootfs_gb) == (0, 10)


def test_settings_narrow_names_ports_and_credentials() -> None:
    strict = changed(Settings(), {"strict_names": True, "ports_limit": 1, "image_auth_id": "refused"})

    for body in ({"name": "under_score"}, {"ports": "1/tcp,2/tcp"}, {"imageAuthId": "3f0c9d0e"}):
        with pytest.raises(RefusalError):
            create_request.read(GOOD | body, strict)
