"""`corral create`: one instance or several alike, and waiting until they are ready."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any, Final

import typer

from corral.cli.commands.instance import show_instance
from corral.cli.commands.listing import print_instances
from corral.cli.create_options.container import (
    Command,
    Entrypoint,
    Env,
    EnvFile,
    Image,
    ImageAuth,
    MinCuda,
    Mount,
    NewLabel,
    Port,
    Secret,
    SecretFile,
    environment,
    labels,
    mounts,
)
from corral.cli.create_options.lease import AtEnd, Grace, Idle, StartAt, StopAt, Timezone, Ttl, lease_order
from corral.cli.exit_codes import INTERRUPTED, exit_code, explain
from corral.cli.options import Json, Timeout, Url, connect, offered_products, offered_templates
from corral.cli.output import price, print_json, print_line, print_note, print_table, rate
from corral.cli.waiting import wait as wait_live
from corral.domain.errors import MalformedError
from corral_client import Aim, Client, ConnectionFailed, CorralError, Created, Instance, InstanceHandle, Plan
from corral_client.models.instances import GONE
from corral_client.models.orders import Order

commands = typer.Typer()

LONGEST_WAIT_SECONDS: Final = 26 * 3600.0
"""With --until-available: longer than the service itself waits, so that its reason is shown."""
MOST: Final = 100
"""Instances of one command: a number of two digits too many costs more than typing the command twice."""


@commands.command(rich_help_panel="Instances")
def create(
    name: Annotated[str, typer.Argument(help="A name for people.")],
    product: Annotated[
        str, typer.Option(help="Whole product name, as `corral products` lists it.", autocompletion=offered_products)
    ],
    template: Annotated[
        str | None,
        typer.Option(help="The provider's template to run; see `corral templates`.", autocompletion=offered_templates),
    ] = None,
    image: Image = None,
    image_auth: ImageAuth = None,
    command: Command = None,
    entrypoint: Entrypoint = None,
    env: Env = None,
    env_file: EnvFile = None,
    secret: Secret = None,
    secret_file: SecretFile = None,
    port: Port = None,
    volume: Mount = None,
    min_cuda: MinCuda = None,
    label: NewLabel = None,
    protected: Annotated[bool, typer.Option("--protected", help="Budgets that are spent leave it running.")] = False,
    ttl: Ttl = None,
    idle: Idle = None,
    on_end: AtEnd = None,
    grace: Grace = None,
    stop_at: StopAt = None,
    start_at: StartAt = None,
    timezone: Timezone = None,
    region: Annotated[str | None, typer.Option(help="Region tried first.")] = None,
    regions: Annotated[
        str | None, typer.Option(metavar="LIST", help="The only regions tried, in this order; comma-separated.")
    ] = None,
    gpus: Annotated[int | None, typer.Option(help="How many GPUs (1).")] = None,
    disk: Annotated[int | None, typer.Option(help="GB of disk (60).")] = None,
    spot: Annotated[bool, typer.Option("--spot/--on-demand", help="How it is paid for.")] = True,
    spot_fallback: Annotated[
        bool, typer.Option("--spot-fallback", help="On-demand where no region has a spot machine.")
    ] = False,
    max_price: Annotated[float | None, typer.Option(help="Most USD per GPU-hour.")] = None,
    until_available: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Wait so long for capacity, such as 2h or 30m; 0 fails at once."),
    ] = None,
    count: Annotated[int, typer.Option(help="How many; they are named NAME-1, NAME-2, …", min=1, max=MOST)] = 1,
    another: Annotated[bool, typer.Option("--another", help="Also if a live instance has that name.")] = False,
    webhook: Annotated[str | None, typer.Option(help="Address that receives events.")] = None,
    webhook_format: Annotated[str | None, typer.Option(help="What it reads: standard, slack or discord.")] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it is ready.")] = True,
    timeout: Timeout = None,
    plan: Annotated[bool, typer.Option("--plan", help="Only print what would be chosen.")] = False,
    json: Json = False,
    url: Url = None,
) -> None:
    """Create an instance, and wait until it is ready. Ctrl-C ends the wait, not the work."""
    if template is None and image is None:
        raise MalformedError("say what is to run: --template (`corral templates` lists them), --image, or both")
    order = Order(name=name, product_name=product, billing_mode="spot" if spot else "onDemand")
    variables, hidden = environment(env, env_file, secret, secret_file)
    lease = lease_order(
        ttl=ttl, idle=idle, on_end=on_end, grace=grace, stop_at=stop_at, start_at=start_at, timezone=timezone
    )
    optional: dict[str, Any] = {
        "lease": lease or None,
        "template_id": template,
        "image": image,
        "image_auth_id": image_auth,
        "command": command,
        "entrypoint": entrypoint,
        "env": variables or None,
        "secrets": hidden or None,
        "ports": port,
        "volumes": mounts(volume or ()) or None,
        "min_cuda": min_cuda,
        "labels": labels(label or (), option="--label") or None,
        "protected": protected or None,
        "gpu_num": gpus,
        "rootfs_size": disk,
        "region": region,
        "regions": None if regions is None else [code.strip() for code in regions.split(",")],
        "spot_fallback": spot_fallback or None,
        "max_price": max_price,
        "wait_for_capacity": until_available,
        "webhook_url": webhook,
        "webhook_format": webhook_format,
    }
    order.update({key: value for key, value in optional.items() if value is not None})  # type: ignore[typeddict-item]  # keys of Order
    if until_available is not None and timeout is None:
        timeout = LONGEST_WAIT_SECONDS
    with connect(url) as client:
        if plan:
            _show_plan(client.instances.plan(**order), json=json)
            return
        names = [name] if count == 1 else [f"{name}-{number}" for number in range(1, count + 1)]
        if not another:
            _check_free(client, names)
        made, failures = _create_all(client, order, names)
        found: Sequence[Instance | InstanceHandle] = made
        if wait:
            found, late = _wait_all(client, made, timeout, url)
            failures += late
    _show(found, is_single=count == 1, json=json)
    for failure in failures:
        print_note(f"corral: {explain(failure)}")
    if failures and count > 1:
        print_note(f"{len(made)} of {count} were created" + (f", {len(found)} are ready." if wait else "."))
    if len(made) < count and isinstance(failures[0], ConnectionFailed):
        print_note(f"It may have been created: `corral ls --name {names[len(made)]}` shows whether it was.")
    if failures:
        raise typer.Exit(exit_code(failures[0]))


def _check_free(client: Client, names: Sequence[str]) -> None:
    """Raise MalformedError if a live instance has one of *names*: a repeated command is the usual way to pay twice."""
    for name in names:
        live = [one for one in client.instances.list(name=name) if one.status not in GONE]
        if live:
            one = live[0]
            raise MalformedError(
                f"there is an instance {name!r} already ({one.id}, {one.status}, {rate(one.price)}); nothing was "
                "created. --another creates one more of that name"
            )


def _create_all(client: Client, order: Order, names: Sequence[str]) -> tuple[list[InstanceHandle], list[CorralError]]:
    """Create one of each name; ends with the first error, because the rest would fail as well."""
    made: list[InstanceHandle] = []
    for name in names:
        try:
            order["name"] = name
            handle = client.instances.create(**order)
        except CorralError as error:
            return made, [error]
        except KeyboardInterrupt:
            print_note(_interrupted(name, made))
            raise typer.Exit(INTERRUPTED) from None
        made.append(handle)
        if sys.stderr.isatty() and handle.created is not None:
            print_note(f"{name} is {handle.id}, in {handle.created.region} for {price(handle.created.price)}")
    return made, []


def _interrupted(name: str, made: Sequence[InstanceHandle]) -> str:
    """What may exist after an interruption of the request for *name*."""
    unsure = f"Interrupted. {name} may have been created: `corral ls --name {name}` shows whether it was."
    return f"{unsure}\nCreated before it; delete with: corral rm {' '.join(h.id for h in made)}" if made else unsure


def _wait_all(
    client: Client, made: Sequence[InstanceHandle], timeout: float | None, url: str | None
) -> tuple[list[Instance], list[CorralError]]:
    """Wait for each; returns those that are ready, and why the others are not."""
    ready: list[Instance] = []
    failures: list[CorralError] = []
    for handle in made:
        try:
            ready.append(wait_live(client, handle.id, Aim.READY, timeout=timeout, url=url))
        except CorralError as error:
            failures.append(error)
    return ready, failures


def _show(found: Sequence[Instance | InstanceHandle], *, is_single: bool, json: bool) -> None:
    instances = [one for one in found if isinstance(one, Instance)]
    receipts = [one.created for one in found if isinstance(one, InstanceHandle) and one.created is not None]
    if json:
        shown: list[Instance | Created] = [*instances, *receipts]
        if shown or not is_single:
            print_json(shown[0] if is_single else shown)
    elif receipts:
        for receipt in receipts:
            print_line(receipt.instance_id)
    elif is_single:
        for instance in instances:
            show_instance(instance, json=False)
    elif instances:
        print_instances(instances)


def _show_plan(plan: Plan, *, json: bool) -> None:
    if json:
        print_json(plan)
        return
    chosen = [(n, o.region, o.product_id, price(o.price), "") for n, o in enumerate(plan.candidates, 1)]
    refused = [("-", r.region, r.product_id, None, r.message) for r in plan.rejected]
    print_table(["order", "region", "product", "price", "why not"], [*chosen, *refused])
    for each in plan.budgets:
        left = max(0.0, each.limit - each.spent - each.reserved)
        does = "refuses" if each.refuses else "allows"
        print_line(f"Budget {each.budget} {does} it: ${each.wanted:.2f} would be reserved, ${left:.2f} are left.")
