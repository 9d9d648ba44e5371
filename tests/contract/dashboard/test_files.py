"""The dashboard's files: their content policy, and that they load nothing from other hosts."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urljoin

import pytest
import pytest_asyncio
from support.http.service import Service, error_of, serving

from corral.dashboard import files
from corral.domain.errors import NEXT_STEPS
from corral.store.session.database import Database

ROOT = Path(files.__file__).parent
SCRIPTS = [f"/dashboard/{path.relative_to(ROOT)}" for path in sorted(ROOT.glob("*/*.js"))]
STYLES = [f"/dashboard/{path.relative_to(ROOT)}" for path in sorted(ROOT.glob("*/*.css"))]
ICON = "/dashboard/shared/icon.svg"
PAGES = [path.replace("{instance_id:str}", "inst_1") for path in files.PAGES]
PARTS = [*PAGES, *SCRIPTS, *STYLES, ICON]
FAILURES = {
    "NOVITA_API_ERROR",
    "NO_OPTIMAL_PRODUCT_ANY_REGION",
    "RESOURCE_CONSTRAINTS",
    "INSUFFICIENT_BALANCE",
    "REGISTRY_AUTH_NOT_FOUND",
    "INVALID_TEMPLATE",
    "PROVISIONING_FAILED",
    "STARTUP_TIMEOUT",
    "STARTUP_FAILED",
    "HEALTH_CHECK_FAILED",
    "HEALTH_CHECK_TIMEOUT",
    "INSTANCE_VANISHED",
    "AUTHENTICATION_FAILED",
}
"""What `error.code` of an instance can be."""


class Markup(HTMLParser):
    """What a page asks a browser to do."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.ids: list[str] = []
        self.inline: list[str] = []
        self._inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside = tag
        for name, value in attrs:
            if name in {"src", "href", "action", "srcset", "poster"}:
                self.addresses.append(value or "")
            if name == "id":
                self.ids.append(value or "")
            if name == "style" or name.startswith("on"):
                self.inline.append(f"<{tag} {name}>")

    def handle_endtag(self, tag: str) -> None:
        self._inside = "" if tag == self._inside else self._inside

    def handle_data(self, data: str) -> None:
        if self._inside in {"script", "style"} and data.strip():
            self.inline.append(f"<{self._inside}> with text")


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def service(shared_database: Database) -> AsyncGenerator[Service]:
    """One for all tests of this file, which change nothing."""
    async with serving(shared_database, pages=files.handlers()) as service:
        yield service


@pytest.mark.parametrize(
    ("path", "media_type"),
    [
        *((page, "text/html; charset=utf-8") for page in PAGES),
        *((script, "text/javascript; charset=utf-8") for script in SCRIPTS),
        *((style, "text/css; charset=utf-8") for style in STYLES),
        (ICON, "image/svg+xml"),
    ],
)
async def test_every_part_is_served_under_the_strictest_policy(service: Service, path: str, media_type: str) -> None:
    """A browser runs our own script and nothing else, even with markup in a name."""
    answer = await service.ask("GET", path)

    assert answer.status == 200
    assert answer.headers["content-type"] == media_type
    assert answer.headers["content-security-policy"] == (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    )
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == "no-cache"


@pytest.mark.parametrize("path", PARTS)
async def test_an_unchanged_part_is_not_sent_again(service: Service, path: str) -> None:
    """Browsers revalidate every time, so that an upgrade shows at once, and get 304 when nothing changed."""
    tag = (await service.ask("GET", path)).headers["etag"]

    again = await service.ask("GET", path, headers={"if-none-match": f'W/{tag}, "other"'})
    other = await service.ask("GET", path, headers={"if-none-match": '"other"'})

    assert (again.status, again.body, again.headers["etag"]) == (304, b"", tag)
    assert other.status == 200


async def test_all_pages_together_are_light(service: Service) -> None:
    """The whole dashboard, compressed, takes under half a second at 1.6 Mbit/s; a page loads a part of it."""
    sent = [await service.ask("GET", path, headers={"accept-encoding": "gzip"}) for path in PARTS]

    assert {answer.headers.get("content-encoding") for answer in sent} == {"gzip"}
    assert sum(int(answer.headers["content-length"]) for answer in sent) <= 97_000


async def test_scripts_are_sent_without_their_comments(service: Service) -> None:
    """Every other line is as in the source and has its number; no text of several lines can lose one of them."""
    for path in SCRIPTS:
        source = (ROOT / path.removeprefix("/dashboard/")).read_text(encoding="utf-8").split("\n")
        sent = (await service.ask("GET", path)).body.decode().split("\n")

        assert sent == ["" if line.lstrip().startswith("//") else line for line in source]
        assert [line for line in source if line.count("`") % 2] == []


async def test_an_unknown_part_gets_the_usual_error_shape(service: Service) -> None:
    """Also one that names another file of the package."""
    for name in (
        "nope.js",
        "files.py",
        "shared/nope.js",
        "nope/api.js",
        "..%2fapp/http_app.py",
        "shared/..%2ffiles.py",
    ):
        error_of(await service.ask("GET", f"/dashboard/{name}"), 404, "NOT_FOUND")


@pytest.mark.parametrize("path", PAGES)
async def test_a_page_has_no_inline_script_and_loads_only_from_here(service: Service, path: str) -> None:
    """The policy would block both; here it is caught before a page breaks. No address assumes the root of a host."""
    page = await _markup(service, path)

    assert page.inline == []
    assert [a for a in page.addresses if re.match(r"/|[a-z]+:", a)] == []
    assert len(page.ids) == len(set(page.ids))
    for address in page.addresses:
        if not address.startswith("#"):
            assert (await service.ask("GET", urljoin(path, address))).status == 200, address


@pytest.mark.parametrize("path", [page for page in PAGES if page != "/"])
async def test_a_page_with_a_slash_at_its_end_leads_to_the_page(service: Service, path: str) -> None:
    """From there its relative addresses lead nowhere. The redirect is relative, so that it works below a prefix."""
    answer = await service.ask("GET", f"{path}/?instance=inst_1")

    assert answer.status == 308
    assert urljoin(f"/corral{path}/", answer.headers["location"]) == f"/corral{path}?instance=inst_1"


@pytest.mark.parametrize("path", [part for part in PARTS if part != ICON])
async def test_no_part_names_another_host(service: Service, path: str) -> None:
    """No font, script or picture from other hosts: it works offline, and no other host sees its users."""
    text = (await service.ask("GET", path)).body.decode()

    assert re.findall(r"(?:https?:)?//[a-z0-9-]+\.[a-z]+", text) == []


@pytest.mark.parametrize("path", SCRIPTS)
async def test_what_the_api_says_never_becomes_markup(service: Service, path: str) -> None:
    """Text is set as text: none of the ways to parse it as markup or code is used."""
    text = (await service.ask("GET", path)).body.decode()
    ways = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|setHTML|\beval\b|new Function"

    assert re.findall(ways, text) == []


@pytest.mark.parametrize("path", PAGES)
async def test_the_scripts_use_only_ids_that_their_page_has(service: Service, path: str) -> None:
    """A renamed id fails here, not in a browser. An id may be in the markup, or be given to an element by a script."""
    page = await _markup(service, path)
    text = await _scripts(service, [urljoin(path, a) for a in page.addresses if a.endswith(".js")])

    assert text or path == "/help/tls"
    made = set(re.findall(r'\bid: "([\w-]+)"', text))
    assert set(re.findall(r'\$\("([\w-]+)"\)', text)) - set(page.ids) - made == set()


async def _markup(service: Service, path: str) -> Markup:
    page = Markup()
    page.feed((await service.ask("GET", path)).body.decode())
    return page


async def _scripts(service: Service, addresses: list[str]) -> str:
    """The text of these modules and of all that they import."""
    read: dict[str, str] = {}
    while addresses:
        address = addresses.pop()
        if address not in read:
            read[address] = (await service.ask("GET", address)).body.decode()
            addresses += [urljoin(address, found) for found in re.findall(r'from "([^"]+)"', read[address])]
    return "".join(read.values())


async def test_a_worker_serves_no_dashboard(shared_database: Database) -> None:
    """Its port is for probes."""
    async with serving(shared_database, pages=files.handlers(), only_watching=True) as service:
        error_of(await service.ask("GET", "/"), 404, "NOT_FOUND")


async def test_every_failure_comes_with_a_next_step(service: Service) -> None:
    """The API has one for each; the page shows that and has no copy of its own."""
    rows = (await service.ask("GET", "/dashboard/fleet/row.js")).body.decode()
    scripts = "".join([(await service.ask("GET", script)).body.decode() for script in SCRIPTS])

    assert FAILURES - set(NEXT_STEPS) == set()
    assert "error.nextStep" in rows
    assert [code for code in NEXT_STEPS if code in scripts] == []


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
async def test_text_can_be_read_in_both_schemes(service: Service, scheme: int) -> None:
    """WCAG AA: at least 4.5 between a text and what it lies on."""
    style = (await service.ask("GET", "/dashboard/shared/style.css")).body.decode()
    colours = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]+)", re.findall(r":root \{(.*?)\}", style, re.DOTALL)[scheme]))
    pairs = [(text, environment) for text in ("text", "soft", "accent") for environment in ("ground", "card")]
    pairs += [(tone, f"{tone}-ground") for tone in ("good", "busy", "bad", "warn", "idle")]
    pairs += [("on-accent", "accent"), ("busy", "card"), ("bad", "card"), ("focus", "card"), ("focus", "ground")]

    assert [pair for pair in pairs if _contrast(*(colours[name] for name in pair)) < 4.5] == []


def _contrast(one: str, other: str) -> float:
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    """Relative luminance, as WCAG 2 defines it."""
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(part * weight for part, weight in zip(linear, (0.2126, 0.7152, 0.0722), strict=True))
