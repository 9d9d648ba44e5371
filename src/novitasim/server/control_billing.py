"""The control calls about money: the ledger, new prices, and rows that the bill lacks."""

from __future__ import annotations

import re

import msgspec
from aiohttp import web

from novitasim.server.simulator import Simulator
from novitasim.settings import SettingError
from novitasim.world.billing.ledger import Bill

_decode = msgspec.json.Decoder(dict[str, object]).decode


async def read_body(request: web.Request) -> dict[str, object]:
    """The JSON object of a control call; raises SettingError if the body is something else."""
    content = await request.read()
    try:
        return _decode(content) if content else {}
    except msgspec.MsgspecError as error:
        raise SettingError(f"the body must be a JSON object: {error}") from error


class BillingControl:
    """What may be asked of a running simulator about money."""

    def __init__(self, simulator: Simulator) -> None:
        self._simulator = simulator

    async def ledger(self, request: web.Request) -> object:
        """GET /_sim/ledger?pattern=REGEX: the bills, and the create requests that were billed twice at a time."""
        read = self._simulator.ledger(request.query.get("pattern"))
        return {
            "now": self._simulator.now(),
            "seconds": read.seconds,
            "usd": read.usd,
            "billed_now": read.billed_now,
            "most_at_once": read.most_at_once,
            "twice": read.twice,
            "at_once": read.at_once,
            "instances": [_shown(bill) for bill in read.bills],
        }

    async def price(self, request: web.Request) -> object:
        """
        POST /_sim/price {productId, price, spotPrice}: new prices, in 1/100000 USD per GPU and hour, from now on.

        `price_change` says whether they count for existing instances.
        """
        body = await read_body(request)
        product_id = str(body.get("productId"))
        product = self._simulator.world.catalog.products.get(product_id)
        if product is None:
            raise SettingError(f"{product_id!r} is not a product")
        price = _price(body, "price", product.price_e5, least=1)
        spot = _price(body, "spotPrice", product.spot_e5, least=0)
        return {"instances": self._simulator.set_price(product_id, price, spot)}

    async def bill(self, request: web.Request) -> object:
        """POST /_sim/bill {name, missing}: leave instances with a matching name out of the bill, or show them again."""
        body = await read_body(request)
        name, missing = str(body.get("name", "")), body.get("missing")
        if not isinstance(missing, bool):
            raise SettingError(f"missing cannot be {missing!r}; accepted: true or false")
        try:
            re.compile(name)
        except re.error as error:
            raise SettingError(f"name cannot be {name!r}; accepted: a regular expression ({error})") from error
        return {"instances": self._simulator.set_billed(name, missing=missing)}


def _price(body: dict[str, object], name: str, default: int, *, least: int) -> int:
    value = body.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise SettingError(f"{name} cannot be {value!r}; accepted: a whole number >= {least}")
    return value


def _shown(bill: Bill) -> dict[str, object]:
    begin = bill.periods[0][0] if bill.periods else None
    end = None if bill.billed_now or not bill.periods else bill.periods[-1][1]
    fields = {name: getattr(bill, name) for name in bill.__slots__ if name != "charges"}
    charges = [
        {
            "kind": charge.kind,
            "from": charge.begin,
            "to": charge.end,
            "quantity": charge.quantity,
            "usd": float(charge.usd()),
        }
        for charge in bill.charges
    ]
    return {"from": begin, "to": end, **fields, "charges": charges}
