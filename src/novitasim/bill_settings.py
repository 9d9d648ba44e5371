"""What is a guess about the provider's money: who is charged for what, and how its bill looks. Part of `Settings`."""

from __future__ import annotations

from dataclasses import dataclass

from novitasim.accepts import choice, seconds, setting, whole, yes_no


@dataclass(frozen=True, slots=True, kw_only=True)
class BillSettings:
    """What is charged, and how the bill calls show it."""

    disk_free_gb: int = setting(60, whole(0), "GB of an instance's disk that cost nothing; documented")
    disk_billed_from: str = setting(
        "pulling",
        choice("pulling", "created"),
        "a disk is charged from the first pulling on, or from toCreate; unknown",
    )
    stopped_disk: str = setting(
        "billed", choice("billed", "free"), "the disk of a stopped instance, until its data is purged; unknown"
    )
    price_change: str = setting(
        "running",
        choice("running", "new"),
        "a new price (`POST /_sim/price`) counts for existing instances too, or only for those created later; unknown",
    )
    bill_lag_seconds: float = setting(600.0, seconds(), "a row of the bill appears so long after its period; unknown")
    bill_rounding: str = setting(
        "down", choice("down", "nearest", "up"), "how an amount becomes a whole number of 1/10000 USD; unknown"
    )
    bill_decimals: bool = setting(True, yes_no(), "rows carry the exact amounts, amountDecimal and so on; undocumented")
    bill_decimal_unit: str = setting(
        "e4", choice("e4", "usd"), "unit of the exact amounts: 1/10000 USD or USD; unknown"
    )
    bill_numbers: str = setting("string", choice("string", "number"), "JSON type of times, prices and amounts; unknown")
    bill_end: str = setting(
        "inclusive", choice("inclusive", "exclusive"), "endTime of a row: its last second, or the first after it"
    )
    bill_disk_category: str = setting(
        "cloud_storage", choice("cloud_storage", "gpu"), "category of the rows for the disks of instances; unknown"
    )
    bill_category_filter: bool = setting(
        True, yes_no(), "bill/list heeds productCategory; otherwise it shows the rows of every category"
    )
    bill_owner_filter: bool = setting(True, yes_no(), "bill/list heeds ownerId; otherwise it shows every owner's rows")
    bill_days_limit: int = setting(31, whole(0), "days that one bill/list call may cover; 0 = any number")
    bill_interval_seconds: float = setting(
        0.0, seconds(), "bill calls that follow each other faster get 429 LIST_BILL_TOO_FAST; the number is unknown"
    )
    bill_missing_percent: int = setting(0, whole(0, 100), "percent of the rows that never appear in the bill")
    voucher_percent: int = setting(0, whole(0, 100), "percent of each amount that a voucher pays")
