"""
The provider's world: what exists, which instance holds which GPU, and what the list shows. No I/O; time is an argument.

Instances carry their own future (`timeline.py`), so reading one costs the same for any number of instances. Only sums
over many (stock, the order of the list) are kept up to date, by an agenda of instants at which an instance may start
or stop to count. `settle(now)` applies what is due; call it before anything else with the same `now`.

Every change is appended to `changes` as (kind, value); the journal writes them to disk.
"""

from __future__ import annotations

import bisect
import dataclasses
import hashlib
import heapq
from random import Random
from typing import TypeVar

from novitasim import settings
from novitasim.api.refusal import RefusalError
from novitasim.settings import Settings
from novitasim.world import catalog, kept_data
from novitasim.world.account import (
    SEEDED_AUTHS,
    SEEDED_STORAGES,
    SEEDED_TEMPLATES,
    Job,
    Network,
    RegistryAuth,
    SshPort,
    Storage,
    Template,
    Unbilled,
)
from novitasim.world.instance import NEVER, Instance, Terms
from novitasim.world.load import LoadHistory
from novitasim.world.stock import Place, Stock
from novitasim.world.timeline import MachineShare

_Kept = TypeVar("_Kept", Template, RegistryAuth, Storage, Network, Job, LoadHistory, SshPort, Unbilled)

# Created templates are numbered from here, well above the seeded ones.
_FIRST_TEMPLATE = 300_000


@dataclasses.dataclass(frozen=True, slots=True)
class Removed:
    """A part of the account was deleted."""

    id: str


@dataclasses.dataclass(frozen=True, slots=True)
class StockSet:
    """The stock of a place was fixed (or, with None, follows the settings again)."""

    product_id: str
    cluster_id: str
    gpus: int | None


@dataclasses.dataclass(frozen=True, slots=True)
class PriceSet:
    """A product has new prices, in 1/100000 USD per GPU and hour."""

    product_id: str
    price_e5: int
    spot_e5: int


class World:
    """The whole account. Deterministic: the same seed, calls and instants give the same world."""

    def __init__(self, *, seed: int = 1, settings: Settings | None = None) -> None:
        self.seed = seed
        self.settings = settings or Settings()
        self.catalog = catalog.seeded()
        self.stock = Stock(seed)
        self.instances: dict[str, Instance] = {}
        self.templates = {template.id: template for template in SEEDED_TEMPLATES}
        self.auths = {auth.id: auth for auth in SEEDED_AUTHS}
        self.storages = {storage.id: storage for storage in SEEDED_STORAGES}
        self.deleted_storages: dict[str, Storage] = {}
        self.unbilled: dict[str, Unbilled] = {}
        self.networks: dict[str, Network] = {}
        self.jobs: dict[str, Job] = {}
        self.loads: dict[str, LoadHistory] = {}
        self.ssh_ports: dict[str, SshPort] = {}
        self.seq = 0
        # The loopback ports of the workloads, so that endpoints survive a restart of the simulator.
        self.workload_ports: dict[str, int] = {}
        self.changes: list[tuple[str, object]] = []
        self._ids: dict[int, str] = {}
        self._names: dict[int, str] = {}
        self._listed: list[int] = []
        self._held: dict[int, tuple[Place, int]] = {}
        self._agenda: list[tuple[float, int]] = []

    def number(self) -> int:
        """The next serial number; ids and random draws derive from it, so that a restart repeats none."""
        self.seq += 1
        return self.seq

    def id_of(self, kind: str, seq: int, length: int = 16) -> str:
        """The id that belongs to a serial number."""
        return hashlib.blake2b(f"{self.seed}/{kind}/{seq}".encode(), digest_size=16).hexdigest()[:length]

    def password_of(self, instance: Instance) -> str:
        """The password of an instance's ssh server and web terminal."""
        return self.id_of("password", instance.seq, 12)

    def template_id(self, seq: int) -> str:
        """The numeric text that is a new template's id."""
        return str(_FIRST_TEMPLATE + seq)

    def dice(self, seq: int, purpose: str) -> Random:
        """A random source of its own for one purpose of one thing."""
        return Random(f"{self.seed}/{seq}/{purpose}")  # noqa: S311  # repeatable on purpose

    def settle(self, now: float) -> None:
        """Apply everything that is due by *now*."""
        while self._agenda and self._agenda[0][0] <= now:
            _, seq = heapq.heappop(self._agenda)
            self._count(self.instances[self._ids[seq]], now)

    def put(self, instance: Instance, now: float, *, record: bool = True) -> Instance:
        """Store *instance* and update the stock and the list; *record* plans its data and appends it to `changes`."""
        if record:
            instance = _with_terms(kept_data.planned(instance, self.settings, now), now)
        self.instances[instance.id] = instance
        self._ids[instance.seq] = instance.id
        self._names[instance.seq] = instance.order.name.lower()
        self.seq = max(self.seq, instance.seq)
        self._count(instance, now)
        if record:
            self.changes.append(("instance", instance))
        return instance

    def find(self, instance_id: str, now: float) -> Instance:
        """The instance, if the provider shows it; raises RefusalError otherwise."""
        instance = self.instances.get(instance_id)
        if (
            instance is None
            or now < instance.found_at
            or instance.hidden(now)
            or instance.removed_at() + self.settings.removed_seen_seconds <= now
        ):
            raise self.not_found("instance")
        return instance

    def not_found(self, what: str, reason: str = "RESOURCE_NOT_FOUND") -> RefusalError:
        """How this provider says that *what* does not exist."""
        chosen = self.settings
        return RefusalError(reason, f"{what} {chosen.not_found_words}", status=chosen.not_found_status)

    def listed(self, name: str = "") -> list[Instance]:
        """What the list shows of names that contain *name* in any case, in its order; as of the last `settle`."""
        order = self._listed if self.settings.list_order == "oldest" else reversed(self._listed)
        wanted, names = name.lower(), self._names
        return [self.instances[self._ids[seq]] for seq in order if wanted in names[seq]]

    def distorted(self, as_of: float, name: str = "") -> list[Instance]:
        """What a wrong list (`list_shows`, `list_age_seconds`) shows of names that contain *name*, in its order."""
        if self.settings.list_shows == "nothing":
            return []
        then = [self.instances[self._ids[seq]] for seq in sorted(self._ids) if name.lower() in self._names[seq]]
        shown = [instance for instance in then if instance.created_at <= as_of and self._is_listed(instance, as_of)]
        if self.settings.list_shows == "half":
            shown = [instance for instance in shown if instance.seq % 2]
        return shown if self.settings.list_order == "oldest" else shown[::-1]

    def listed_slice(self, first: int, count: int) -> tuple[list[Instance], int]:
        """Part of the list and its whole length, without walking all of it."""
        total = len(self._listed)
        if self.settings.list_order == "oldest":
            part = self._listed[first : first + count]
        else:
            part = self._listed[max(0, total - first - count) : max(0, total - first)][::-1]
        return [self.instances[self._ids[seq]] for seq in part], total

    def left(self, place: Place, now: float) -> int:
        """GPUs left in a place; 0 where the product is not sold."""
        product = self.catalog.products.get(place[0])
        if product is None or place[1] not in product.clusters:
            return 0
        return self.stock.left(place, now, base=self.settings.stock, weather=self.settings.weather)

    def set_stock(self, change: StockSet) -> None:
        """Fix the stock of a place, or let it follow the settings again."""
        place = (change.product_id, change.cluster_id)
        if change.gpus is None:
            self.stock.overrides.pop(place, None)
        else:
            self.stock.overrides[place] = change.gpus
        self.changes.append(("stock", change))

    def set_price(self, change: PriceSet) -> None:
        """Change the catalog's prices of a product; raises KeyError if there is no such product."""
        products = self.catalog.products
        products[change.product_id] = dataclasses.replace(
            products[change.product_id], price_e5=change.price_e5, spot_e5=change.spot_e5
        )
        self.changes.append(("price", change))

    def change_settings(self, raw: dict[str, object], now: float) -> None:
        """Apply settings; raises SettingError and changes nothing if one is wrong."""
        self.settings = settings.changed(self.settings, raw)
        self.changes.append(("settings", raw))
        for instance in list(self.instances.values()):
            if kept_data.planned(instance, self.settings, now) is not instance:
                self.put(instance, now)
            else:
                self._count(instance, now)

    def keep(self, kind: str, table: dict[str, _Kept], thing: _Kept) -> _Kept:
        """Store a part of the account in its table."""
        table[thing.id] = thing
        self.changes.append((kind, thing))
        return thing

    def discard(self, kind: str, table: dict[str, _Kept], thing_id: str) -> None:
        """Delete a part of the account from its table."""
        del table[thing_id]
        self.changes.append((f"{kind}_gone", Removed(thing_id)))

    def _count(self, instance: Instance, now: float) -> None:
        self._count_stock(instance, now)
        self._count_listed(instance, now)
        if (due := instance.steady_until(now)) < NEVER:
            heapq.heappush(self._agenda, (due, instance.seq))

    def _count_stock(self, instance: Instance, now: float) -> None:
        order = instance.order
        holds = order.kind == "gpu" and instance.claim(now) is not MachineShare.NOTHING
        wanted = ((order.product_id, order.cluster_id), order.gpus) if holds else None
        held = self._held.get(instance.seq)
        if held == wanted:
            return
        if held is not None:
            self.stock.hold(held[0], -held[1])
            del self._held[instance.seq]
        if wanted is not None:
            self.stock.hold(*wanted)
            self._held[instance.seq] = wanted

    def _count_listed(self, instance: Instance, now: float) -> None:
        shown = self._is_listed(instance, now)
        at = bisect.bisect_left(self._listed, instance.seq)
        there = at < len(self._listed) and self._listed[at] == instance.seq
        if shown and not there:
            self._listed.insert(at, instance.seq)
        elif there and not shown:
            del self._listed[at]

    def _is_listed(self, instance: Instance, now: float) -> bool:
        removed = instance.removed_at() <= now and not self.settings.removed_stay_listed
        return now >= instance.listed_at and not removed and not instance.hidden(now)


def _with_terms(instance: Instance, now: float) -> Instance:
    """The instance with its present price and disk as its newest terms, if they are others than before."""
    order, known = instance.order, instance.terms
    at = now if known else instance.created_at
    current = Terms(at=at, rate_e5=instance.rate_e5, gpus=order.gpus, disk_gb=order.rootfs_gb)
    if known and dataclasses.replace(known[-1], at=at) == current:
        return instance
    return dataclasses.replace(instance, terms=(*known, current))
