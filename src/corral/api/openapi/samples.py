"""
An example in curl and one in Python for every route.

The curl command is made from the examples of the parameters and the body. The Python program calls the SDK, as `SDK`
says, or sends the request with `requests` where the SDK has no method. Both read the service's address and the key from
the environment, as the SDK and the `corral` command do.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode

_ID: Final = "inst_8k3v1q5t0c"
_ORDER: Final = 'name="trainer", product_name="RTX 4090 24GB", template_id="107672"'

SDK: Final[Mapping[str, str]] = {
    "createInstance": f"job = client.instances.create({_ORDER})\nprint(job.wait_until_ready().connection_details.ssh)",
    "listInstances": 'for instance in client.instances.list(status="ready"):\n    print(instance.name, instance.price)',
    "getInstance": f'instance = client.instances.get("{_ID}")\nprint(instance.status)',
    "startInstance": f'job = client.instances.start("{_ID}")\nprint(job.wait_until_ready().status)',
    "stopInstance": f'job = client.instances.stop("{_ID}")\nprint(job.wait_until_stopped().status)',
    "restartInstance": f'job = client.instances.restart("{_ID}")\nprint(job.wait_until_ready().status)',
    "deleteInstance": f'job = client.instances.delete("{_ID}")\nprint(job.wait_until_gone().status)',
    "extendLease": f'instance = client.instances.extend("{_ID}", by="2h")\nprint(instance.lease.ends_at)',
    "changeLease": f'instance = client.instances.set_lease("{_ID}", max_duration="8h")\nprint(instance.lease.ends_at)',
    "reportUse": f'use = client.instances.used("{_ID}")\nprint(use.last_used_at)',
    "adoptInstance": 'instance = client.instances.adopt("5be2c7d10f9a4436")\nprint(instance.status)',
    "listOrphans": "report = client.orphans()\nprint(report.orphans)",
    "getCosts": 'costs = client.costs.get(group_by="label:team")\nprint(costs.total.usd, costs.groups)',
    "listReconciliations": "days = client.costs.reconciliations()\nprint([(day.day, day.difference) for day in days])",
    "reconcileDay": "day = client.costs.reconcile()\nprint(day.difference, day.machines)",
    "getCostForecast": "forecast = client.costs.forecast()\nprint(forecast.month.expected.usd)",
    "exportCosts": 'for line in client.costs.export(format="focus"):\n    print(line)',
    "getAccount": "account = client.account()\nprint(account.runs_out_at)",
    "getCaller": "caller = client.whoami()\nprint(caller.role)",
    "getOptimalProduct": 'plan = client.products.optimal("RTX 4090 24GB")\nprint(plan.candidates[0])',
    "listProducts": "for product in client.products.list():\n    print(product.name, product.price_per_gpu)",
    "listTemplates": "for template in client.templates.list():\n    print(template.id, template.name)",
    "getTemplate": 'template = client.templates.get("107672")\nprint(template.image)',
    "listVolumes": "for volume in client.volumes():\n    print(volume.id, volume.region)",
    "getOperation": 'operation = client.operations.get("op_4h2m9x7r1d")\nprint(operation.status)',
    "listOperations": f'for operation in client.instances.operations("{_ID}"):\n    print(operation.status)',
    "listEvents": "for event in client.events.list():\n    print(event.seq, event.event)",
    "streamEvents": "for event in client.events.follow():\n    print(event.seq, event.event)",
    "listDeliveries": 'for delivery in client.deliveries.list(status="failed"):\n    print(delivery.id, delivery.host)',
    "redeliverWebhook": 'delivery = client.deliveries.redeliver("dlv_7")\nprint(delivery.status)',
    "listAudit": 'for line in client.audit.list(who="ci"):\n    print(line.at, line.method, line.path)',
    "listJobs": 'for job in client.jobs.list(status="failed"):\n    print(job.id, job.error)',
    "getJob": 'job = client.jobs.get("job_42")\nprint(job.status)',
    "getJobStats": "stats = client.jobs.stats()\nprint(stats.pending_jobs)",
    "pauseJobs": "state = client.jobs.pause()\nprint(state.paused_at)",
    "resumeJobs": "state = client.jobs.resume()\nprint(state.paused)",
    "listBudgets": "for budget in client.budgets.list():\n    print(budget.name, budget.spent, budget.limit_usd)",
    "getBudget": 'budget = client.budgets.get("vision")\nprint(budget.spent, budget.resets_at)',
    "setBudget": 'budget = client.budgets.set("vision", scope="label:team=vision", period="day", limit_usd=200)\n'
    "print(budget.resets_at)",
    "removeBudget": 'client.budgets.remove("vision")\nprint("removed")',
    "getHealth": "health = client.health()\nprint(health.status)",
}
"""Operation → what is done with the client."""


def samples(path: str, method: str, operation: Mapping[str, Any]) -> list[dict[str, str]]:
    """The examples of one operation, as viewers of OpenAPI documents show them."""
    return [
        {"lang": "shell", "label": "curl", "source": _curl(path, method, operation)},
        {"lang": "python", "label": "Python", "source": _python(path, method, operation)},
    ]


def _curl(path: str, method: str, operation: Mapping[str, Any]) -> str:
    query = urlencode(_required(operation, "query"), quote_via=quote)
    target = f"$CORRAL_URL{_filled(path, operation)}{'?' if query else ''}{query}"
    verb = [] if method == "get" else [f"-X {method.upper()}"]
    stream = ["-N"] if "text/event-stream" in operation["responses"].get("200", {}).get("content", {}) else []
    lines = [" ".join(["curl", *stream, *verb, f'"{target}"'])]
    if operation["security"]:
        lines.append('-H "Authorization: Bearer $CORRAL_API_KEY"')
    body = _body(operation)
    if body is not None:
        lines += ["-H 'Content-Type: application/json'", f"-d {shlex.quote(json.dumps(body))}"]
    return " \\\n  ".join(lines)


def _python(path: str, method: str, operation: Mapping[str, Any]) -> str:
    call = SDK.get(operation["operationId"])
    if call is not None:
        inside = "\n".join(f"    {line}" for line in call.splitlines())
        return f"from corral_client import Client\n\nwith Client() as client:\n{inside}"
    arguments = [f"f\"{{os.environ['CORRAL_URL']}}{_filled(path, operation)}\""]
    query, body = _required(operation, "query"), _body(operation)
    arguments += [f"params={query!r}"] if query else []
    arguments += [f"json={body!r}"] if body is not None else []
    if operation["security"]:
        arguments.append('headers={"Authorization": f"Bearer {os.environ[\'CORRAL_API_KEY\']}"}')
    listed = "".join(f"    {argument},\n" for argument in [*arguments, "timeout=30"])
    is_text = "text/plain" in operation["responses"].get("200", {}).get("content", {})
    shown = "response.text" if is_text else "response.json()"
    return (
        f"import os\n\nimport requests\n\nresponse = requests.{method}(\n{listed})\n"
        f"response.raise_for_status()\nprint({shown})"
    )


def _required(operation: Mapping[str, Any], place: str) -> dict[str, Any]:
    parameters = [p for p in operation.get("parameters", ()) if p["in"] == place and p.get("required")]
    return {parameter["name"]: parameter["example"] for parameter in parameters}


def _filled(path: str, operation: Mapping[str, Any]) -> str:
    """The path with the examples of its parameters."""
    for name, example in _required(operation, "path").items():
        path = path.replace(f"{{{name}}}", quote(str(example), safe=""))
    return path


def _body(operation: Mapping[str, Any]) -> Any:
    """The smallest body, where one is required."""
    sent = operation.get("requestBody", {})
    if not sent.get("required"):
        return None
    return sent["content"]["application/json"]["examples"]["minimal"]["value"]
