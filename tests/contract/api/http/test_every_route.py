"""What every caller may rely on, whatever the route: one error shape, ids, doors and limits."""

from __future__ import annotations

import asyncio
import io
import re
from collections.abc import AsyncGenerator

import pytest
from support.clock.waiting import until
from support.http.served_api import opened
from support.http.service import Service, error_of, serving

from corral.api.http.limits import Limits
from corral.jobs.queue import NewJob
from corral.jobs.registry import JobRun, JobType, Priority
from corral.store.session.database import Database

JSON = {"content-type": "application/json"}


async def _nothing(_run: JobRun) -> None:
    """Do no work."""


@pytest.fixture
async def service(database: Database) -> AsyncGenerator[Service]:
    limits = Limits(headers_within_seconds=0.3, body_piece_within_seconds=0.3)
    async with serving(database, limits=limits) as service:
        service.engine.registry.add(JobType(name="probe", handler=_nothing, priority=Priority.HIGH, retries=2))
        yield service


async def test_an_unknown_path_gets_the_usual_error_shape(service: Service) -> None:
    """A 404 of the framework looks like every other error."""
    error_of(await service.ask("GET", "/nope"), 404, "NOT_FOUND")


async def test_a_wrong_method_gets_the_usual_error_shape(service: Service) -> None:
    """A 405 says what is allowed."""
    answer = await service.ask("POST", "/health")

    error_of(answer, 405, "METHOD_NOT_ALLOWED")
    assert answer.headers["allow"] == "GET, HEAD, OPTIONS"


async def test_options_lists_every_method_of_a_path(database: Database) -> None:
    """Also of paths with separately declared methods."""
    async with opened(database) as api:
        answer = await api.service.ask("OPTIONS", "/api/instances")

    assert (answer.status, answer.headers["allow"]) == (204, "GET, HEAD, OPTIONS, POST")


@pytest.mark.parametrize("body", [b"{", b"", b"\xff\xfe", b"[" * 5000, b'{"olderThanMs": 1e999}', b"nul"])
async def test_malformed_json_gets_the_usual_error_shape(service: Service, body: bytes) -> None:
    """Also JSON that is deep, not UTF-8 or not a number any machine holds."""
    answer = await service.ask("POST", "/api/jobs/cleanup", data=body, headers=JSON)

    if body:
        error_of(answer, 400, answer.json["error"]["code"])
        assert answer.json["error"]["code"] in {"INVALID_JSON", "VALIDATION_ERROR"}
    else:
        assert answer.status == 200


async def test_every_bad_query_field_is_named_at_once(service: Service) -> None:
    """All mistakes are reported together."""
    error = error_of(await service.ask("GET", "/api/jobs?limit=0&offset=x&status=odd"), 400, "VALIDATION_ERROR")

    assert [(p["field"], p["code"]) for p in error["validationErrors"]] == [
        ("status", "INVALID_QUERY"),
        ("limit", "INVALID_QUERY"),
        ("offset", "INVALID_QUERY"),
    ]


async def test_a_wrong_field_is_named_as_the_caller_wrote_it(service: Service) -> None:
    """Not as our function calls it."""
    long = "x" * 101
    answer = await service.ask("GET", f"/api/jobs?type={long}&instanceId={long}")

    error = error_of(answer, 400, "VALIDATION_ERROR")
    assert [problem["field"] for problem in error["validationErrors"]] == ["type", "instanceId"]


async def test_a_query_with_nul_is_refused(service: Service) -> None:
    """PostgreSQL's text cannot hold it; that must not become an error of ours."""
    error_of(await service.ask("GET", "/api/jobs?instanceId=%00"), 400, "VALIDATION_ERROR")


async def test_a_body_must_be_json(service: Service) -> None:
    """A form posted by a foreign page must not act here."""
    answer = await service.ask(
        "POST", "/api/jobs/cleanup", data=b"olderThanMs=0", headers={"content-type": "text/plain"}
    )

    error_of(answer, 415, "UNSUPPORTED_MEDIA_TYPE")


@pytest.mark.parametrize("chunked", [False, True])
async def test_an_oversize_body_is_refused(service: Service, *, chunked: bool) -> None:
    """Whether its size is declared or only shows as it arrives."""

    async def pieces() -> AsyncGenerator[bytes]:
        for _ in range(20):
            yield b" " * 100_000

    answer = await service.ask(
        "POST", "/api/jobs/cleanup", data=pieces() if chunked else io.BytesIO(b" " * 2_000_000), headers=JSON
    )

    error_of(answer, 413, "BODY_TOO_LARGE")


async def test_a_body_that_stops_arriving_is_given_up(service: Service) -> None:
    """A slow client must not hold a connection for ever."""
    answer = await service.raw(
        b"POST /api/jobs/cleanup HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        b"content-length: 10\r\n\r\n{"
    )

    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b'"REQUEST_TIMEOUT"' in answer


@pytest.mark.parametrize("sent", [b"", b"GET /health HTTP/1.1\r\nhost: localhost\r\nx-slow: "])
async def test_headers_that_do_not_come_are_not_waited_for(service: Service, sent: bytes) -> None:
    """The slow-loris attack ends with a hang-up."""
    assert await service.raw(sent) == b""


async def test_headers_of_a_second_request_are_not_waited_for_either(service: Service) -> None:
    """Whether they begin with the end of the first or later."""
    first = b"GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n"
    at_once = await service.raw(first + b"GET /health/live HTTP/1.1\r\nx-slow: ")
    reader, writer = await asyncio.open_connection("127.0.0.1", service.port)
    writer.write(first)
    later = await reader.readuntil(b"}")
    writer.write(b"GET /health/live HTTP/1.1\r\nx-slow: ")
    rest = await reader.read()
    writer.close()

    assert at_once.count(b"HTTP/1.1 200 OK") == later.count(b"HTTP/1.1 200 OK") == 1
    assert rest == b""


async def test_a_flood_of_headers_is_refused(service: Service) -> None:
    """Headers cost memory before any code of ours sees them."""
    flood = b"".join(b"x-%d: %s\r\n" % (n, b"y" * 1000) for n in range(200))
    try:
        answer = await service.raw(b"GET /health HTTP/1.1\r\nhost: localhost\r\n" + flood)
    except ConnectionResetError:
        return  # refused while we still wrote

    assert b"400 Bad Request" in answer


async def test_an_unreadable_request_gets_the_usual_error_shape(service: Service) -> None:
    """Even what is not HTTP gets the one error shape."""
    answer = await service.raw(b"this is not HTTP\r\n\r\n")

    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b'{"error":{"code":"INVALID_REQUEST"' in answer


async def test_ids_are_echoed_when_well_formed_and_made_when_not(service: Service) -> None:
    """A caller can follow its request; no caller can write into our logs."""
    sent = await service.ask("GET", "/health", headers={"X-Request-ID": "abc-1", "X-Correlation-ID": "shop/7"})
    odd = await service.ask("GET", "/health", headers={"X-Request-ID": "a b\tc", "X-Correlation-ID": "x" * 500})

    assert (sent.headers["x-request-id"], sent.headers["x-correlation-id"]) == ("abc-1", "shop/7")
    assert odd.headers["x-request-id"].startswith("req_")
    assert odd.headers["x-correlation-id"] == odd.headers["x-request-id"]


@pytest.mark.parametrize("host", ["localhost", "localhost:80", "127.0.0.1", "127.0.0.1:3000", "[::1]", "[::1]:3000"])
async def test_local_names_are_let_in(service: Service, host: str) -> None:
    """On a loopback address, this machine's names work."""
    assert (await service.ask("GET", "/health/live", headers={"Host": host})).status == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:3000", "", "[::2]", "10.0.0.1"]
)
async def test_foreign_names_are_refused(service: Service, host: str) -> None:
    """A page elsewhere that points its name at us (DNS rebinding) gets nothing."""
    error_of(await service.ask("GET", "/api/jobs", headers={"Host": host}), 403, "FORBIDDEN")


async def test_a_stopping_service_says_so(service: Service) -> None:
    """Callers are sent elsewhere; orchestrators can still look."""
    service.parts.service_health.stopping = True

    answer = await service.ask("GET", "/api/jobs")
    error = error_of(answer, 503, "SHUTTING_DOWN")

    assert (error["retryable"], error["retryAfter"], answer.headers["retry-after"]) == (True, 5, "5")
    assert (await service.ask("GET", "/health/live")).status == 200
    assert (await service.ask("GET", "/health/ready")).status == 503


async def test_an_unexpected_error_does_not_show_its_cause(service: Service, database: Database) -> None:
    """No stack trace, no statement, no name of a table reaches the caller."""
    async with database.connection() as connection:
        await connection.execute("DROP TABLE corral_finished_jobs")

    error = error_of(await service.ask("GET", "/api/jobs"), 500, "INTERNAL_SERVER_ERROR")

    assert error["message"] == "an internal error occurred"
    assert set(error) == {"code", "message", "timestamp", "requestId", "correlationId", "retryable"}


async def test_a_lost_database_is_reported_as_such(service: Service, database: Database) -> None:
    """503 and when to ask again, not 500."""
    database.pool.terminate()

    error = error_of(await service.ask("GET", "/api/jobs"), 503, "DATABASE_UNAVAILABLE")

    assert error["retryable"] is True
    assert error["retryAfter"] >= 1


async def test_health_shows_every_part(service: Service) -> None:
    """200 while all is well, 503 with the same body when a part is down."""
    well = await service.ask("GET", "/health")
    service.parts.service_health.report("database", up=False)
    ill = await service.ask("GET", "/health")

    assert (well.status, well.json["status"], well.json["services"]) == (200, "healthy", {"database": "up"})
    assert (ill.status, ill.json["status"], ill.json["services"]) == (503, "unhealthy", {"database": "down"})
    assert set(well.json) == {"status", "timestamp", "uptime", "version", "services", "dependencies"}


async def test_numbers_count_requests_by_route(service: Service) -> None:
    """One label per route, not one per requested path."""
    for path in ("/api/jobs/1", "/api/jobs/2", "/nope/1", "/nope/2"):
        await service.ask("GET", path)

    text = (await service.ask("GET", "/metrics")).body.decode()

    assert 'corral_http_requests_total{method="GET",route="/api/jobs/{job_id}",status="404"} 2.0' in text
    assert 'corral_http_requests_total{method="GET",route="(none)",status="404"} 2.0' in text


async def test_the_docs_need_no_other_host(service: Service) -> None:
    """The viewer comes from a package; the page and its parts name each other relative to themselves."""
    page = await service.ask("GET", "/docs")
    text = page.body.decode()
    loaded = re.findall(r'(?:src|href)="([^"]+)"', text)
    parts = {name: await service.ask("GET", f"/{name}") for name in loaded if name.startswith("docs/")}

    assert page.headers["content-type"].startswith("text/html")
    assert {"docs/viewer.js", "docs/start.js", "docs/page.css", "schema/openapi.json"} <= set(loaded)
    assert not [name for name in loaded if name.startswith(("/", "http"))]
    assert {part.status for part in parts.values()} == {200}
    assert len(parts["docs/viewer.js"].body) > 1_000_000
    policy = page.headers["content-security-policy"]
    assert "script-src 'self';" in policy
    assert "connect-src 'self';" in policy
    assert "http" not in policy


async def test_the_viewer_is_compressed_once_and_sent_once(service: Service) -> None:
    """Its 4.7 MB are 1.4 MB on the wire, and nothing on the next visit."""
    gzip = {"Accept-Encoding": "gzip"}
    first = await service.ask("GET", "/docs/viewer.js", headers=gzip)
    again = await service.ask("GET", "/docs/viewer.js", headers={**gzip, "If-None-Match": first.headers["etag"]})
    slash = await service.ask("GET", "/docs/")

    assert first.headers["content-encoding"] == "gzip"
    assert int(first.headers["content-length"]) < 1_500_000
    assert (again.status, again.body) == (304, b"")
    assert (slash.status, slash.headers["location"]) == (302, "../docs")
    error_of(await service.ask("GET", "/docs/offapi.js"), 404, "NOT_FOUND")


async def test_a_workers_port_serves_only_health_and_numbers(database: Database) -> None:
    """A worker takes no orders over HTTP."""
    async with serving(database, only_watching=True) as service:
        assert (await service.ask("GET", "/health/ready")).status == 200
        assert (await service.ask("GET", "/metrics")).status == 200
        for path in ("/api/jobs", "/schema", "/schema/openapi.json", "/docs", "/"):
            error_of(await service.ask("GET", path), 404, "NOT_FOUND")


@pytest.mark.parametrize("path", ["/health/live", "/api/jobs", "/nope", "/docs", "/schema/openapi.json"])
async def test_no_response_can_be_framed_or_taken_for_another_type(service: Service, path: str) -> None:
    """JSON and errors too: a browser must not guess what they are."""
    headers = (await service.ask("GET", path)).headers

    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "no-referrer"
    assert "frame-ancestors 'none'" in headers["content-security-policy"]


async def test_head_works_wherever_get_does(database: Database) -> None:
    """The same status and headers, and no body; also of what is refused and of streams, which end."""
    async with opened(database) as api:
        document = (await api.get("/schema/openapi.json")).json
        paths = [path for path, methods in document["paths"].items() if "get" in methods]
        for path in ["/docs", "/schema/openapi.json", "/nope", *paths]:
            if path.endswith("/comprehensive"):
                continue  # the stub provider here shows no instances
            asked = path.replace("{", "").replace("}", "")
            if path.endswith("/stream"):
                head = await api.service.ask("HEAD", asked)
                assert (head.status, head.body, head.headers["content-type"]) == (
                    200,
                    b"",
                    "text/event-stream; charset=utf-8",
                )
                continue
            got, head = await api.get(asked), await api.service.ask("HEAD", asked)
            assert (head.status, head.body) == (got.status, b""), asked
            assert head.headers["content-type"] == got.headers["content-type"], asked
        metrics = (await api.get("/metrics")).body.decode()

    assert 'corral_http_requests_total{method="HEAD",route="/api/jobs",status="200"} 1.0' in metrics


async def test_browsers_of_allowed_origins_may_call(service: Service) -> None:
    """CORS answers exactly the origins that were named."""
    headers = {"Origin": "https://ops.example", "Access-Control-Request-Method": "GET"}
    allowed = await service.ask("OPTIONS", "/api/jobs", headers=headers)
    foreign = await service.ask("GET", "/health", headers={"Origin": "https://evil.example"})

    assert allowed.headers["access-control-allow-origin"] == "https://ops.example"
    assert "access-control-allow-origin" not in foreign.headers


async def test_a_job_that_goes_first_is_shown_as_high(service: Service, database: Database) -> None:
    """The contract knows three priorities."""
    async with database.transaction() as connection:
        await service.engine.queue.add([NewJob(type="probe", payload={}, first=True)]).run(connection)

    listed = (await service.ask("GET", "/api/jobs?priority=high")).json
    assert [job["priority"] for job in listed["jobs"]] == ["high"]
    assert (await service.ask("GET", "/api/jobs?priority=normal")).json["jobs"] == []


async def test_jobs_are_shown_and_cleaned_up(service: Service, database: Database) -> None:
    """The job routes speak the words of the contract."""
    async with database.transaction() as connection:
        job = NewJob(type="probe", payload={"instanceId": "inst_1"})
        ((job_id,),) = await service.engine.queue.add([job]).run(connection)

    listed = (await service.ask("GET", "/api/jobs?type=probe&status=pending&priority=high&instanceId=inst_1")).json
    one = (await service.ask("GET", f"/api/jobs/job_{job_id}")).json
    stats = (await service.ask("GET", "/api/jobs/stats")).json
    removed = (await service.ask("POST", "/api/jobs/cleanup", json={"olderThanMs": "0"})).json

    assert listed["jobs"] == [one]
    assert one["createdAt"].endswith("Z")
    assert {key: value for key, value in one.items() if key != "createdAt"} == {
        "id": f"job_{job_id}",
        "type": "probe",
        "status": "pending",
        "priority": "high",
        "attempts": 0,
        "maxAttempts": 3,
        "processedAt": None,
        "completedAt": None,
        "nextRetryAt": None,
        "error": None,
        "payload": {"instanceId": "inst_1"},
    }
    assert (stats["totalJobs"], stats["pendingJobs"], stats["jobsByType"]) == (1, 1, {"probe": 1})
    assert stats["oldestPendingAgeMs"] >= 0
    assert removed == {"removed": 0}


@pytest.mark.parametrize("job_id", ["job_999", "999", "job_x", "9" * 40, "%00", "job_-1"])
async def test_an_unknown_job_is_not_found(service: Service, job_id: str) -> None:
    """Whatever is written in its place."""
    error_of(await service.ask("GET", f"/api/jobs/{job_id}"), 404, "JOB_NOT_FOUND")


async def test_callers_count_as_waiting_until_they_are_answered(service: Service) -> None:
    """Also those that are refused or never finish: a wrong count would slow all jobs permanently."""
    service_health = service.parts.service_health
    _, writer = await asyncio.open_connection("127.0.0.1", service.port)
    head = f"POST /api/jobs/cleanup HTTP/1.1\r\nhost: 127.0.0.1:{service.port}\r\ncontent-type: application/json\r\n"
    writer.write(f"{head}content-length: 10\r\n\r\n".encode())
    await until(lambda: service_health.callers_waiting == 1)
    writer.close()
    await until(lambda: service_health.callers_waiting == 0)

    await service.ask("GET", "/nowhere")
    await service.ask("GET", "/api/jobs", headers={"host": "elsewhere.example"})

    assert service_health.callers_waiting == 0


async def test_many_requests_at_once_all_answer(service: Service) -> None:
    """More callers than connections to the database simply wait their turn."""
    answers = await asyncio.gather(*(service.ask("GET", "/api/jobs/stats") for _ in range(100)))

    assert {answer.status for answer in answers} == {200}
