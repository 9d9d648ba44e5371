"""
One instance: what was ordered, and the course it takes. A value; every change makes a new one.

Whatever depends on time is asked with `now`. `steady_until` says how long an answer stays true, so that a renderer
an instance may keep the result.
"""

from __future__ import annotations

from dataclasses import dataclass

from novitasim.world.timeline import Course, MachineShare, SpotStatus, SpotStep, Status, Step

# Later than any instant. A number and not infinity, because JSON has none.
NEVER = 9e15


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """A port to be reached from outside."""

    port: int
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Env:
    """An environment variable."""

    key: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A network storage and where it is mounted."""

    id: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What a create call asked for, checked and with defaults filled in."""

    name: str
    product_id: str
    gpus: int
    rootfs_gb: int
    image: str
    kind: str = "gpu"
    image_auth: str = ""
    image_auth_id: str = ""
    ports: tuple[Port, ...] = ()
    envs: tuple[Env, ...] = ()
    tools: tuple[tuple[str, Port], ...] = ()
    command: str = ""
    entrypoint: str = ""
    cluster_id: str = ""
    mounts: tuple[Mount, ...] = ()
    network_id: str = ""
    months: int = 0
    billing_mode: str = "onDemand"
    min_cuda: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A statusError, and since when it is shown."""

    at: float
    state: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What an instance is charged for from *at* on: its GPUs, their price per hour together, and its disk."""

    at: float
    rate_e5: int
    gpus: int
    disk_gb: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """An instance of the account; `order.cluster_id` is where it really is."""

    id: str
    seq: int
    order: Order
    rate_e5: int
    created_at: float
    listed_at: float
    found_at: float
    course: Course
    spot: tuple[SpotStep, ...] = ()
    failure: Failure | None = None
    hidden_from: float = NEVER
    hidden_until: float = NEVER
    starts: int = 1
    data_until: float = NEVER
    """While it is stopped: when its data is purged."""
    terms: tuple[Terms, ...] = ()
    """Every price and size it has had, oldest first, so that a change does not reach into the past."""

    def step(self, now: float) -> Step:
        """Its step of the timeline; before its creation the first step."""
        for step in reversed(self.course):
            if step.at <= now:
                return step
        return self.course[0]

    def status(self, now: float) -> Status:
        """The provider's word for it."""
        return self.step(now).status

    def claim(self, now: float) -> MachineShare:
        """What it has of a machine; a vanished instance has nothing."""
        return MachineShare.NOTHING if self.vanished(now) else self.step(now).claim

    def spot_step(self, now: float) -> SpotStep | None:
        """Its spot status, if it is a spot instance."""
        seen = [step for step in self.spot if step.at <= now]
        return seen[-1] if seen else None

    def spot_deadline(self) -> tuple[float, float] | None:
        """(noticed, reclaimed) if the provider reclaimed or will reclaim its machine."""
        at = {step.status: step.at for step in self.spot}
        if SpotStatus.NOTIFIED not in at:
            return None
        return at[SpotStatus.NOTIFIED], at[SpotStatus.RECLAIMING]

    def failed_by(self, at: float) -> Failure | None:
        """The failure that is shown at an instant, if any."""
        return self.failure if self.failure and self.failure.at <= at else None

    def hidden(self, now: float) -> bool:
        """The provider denies it for the time being."""
        return self.hidden_from <= now < self.hidden_until

    def vanished(self, now: float) -> bool:
        """The provider denies it for good: it is no longer billed either."""
        return self.hidden_until == NEVER and self.hidden_from <= now

    def removed_at(self) -> float:
        """When it is removed, as things stand; NEVER if it is not going to be."""
        last = self.course[-1]
        return last.at if last.status is Status.REMOVED else NEVER

    def last(self, status: Status, now: float) -> float:
        """When it last came into *status*, or 0."""
        return max((step.at for step in self.course if step.status is status and step.at <= now), default=0.0)

    def steady_until(self, now: float) -> float:
        """The next instant at which any answer above may change."""
        failing = (self.failure.at,) if self.failure else ()
        instants = (
            *(step.at for step in self.course),
            *(step.at for step in self.spot),
            *failing,
            self.listed_at,
            self.found_at,
            self.hidden_from,
            self.hidden_until,
            self.data_until,
        )
        return min((at for at in instants if at > now), default=NEVER)
