// The same request as a `corral` command and as curl, for scripts.

import { ROOT } from "../shared/root.js";

const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

// The command; null if it has no option for something in *body*.
export function corralCommand(body, count) {
  const { maxDuration, idle, onEnd, grace, schedule } = body.lease ?? {};
  if (body.healthCheck || Object.keys(idle ?? {}).some((part) => part !== "after")) return null;
  const options = [
    ["--product", body.productName], ["--template", body.templateId], ["--gpus", body.gpuNum !== "1" && body.gpuNum], ["--disk", body.rootfsSize !== "60" && body.rootfsSize],
    ["--region", body.region], ["--regions", body.regions?.join(",")], ["--max-price", body.maxPrice], ["--until-available", body.waitForCapacity], ["--webhook", body.webhookUrl], ["--webhook-format", body.webhookFormat], ["--count", count > 1 && String(count)],
    ["--ttl", maxDuration === null ? "none" : maxDuration], ["--idle", idle === null ? "none" : idle?.after], ["--on-end", onEnd], ["--grace", grace], ["--stop-at", schedule?.stop], ["--start-at", schedule?.start], ["--timezone", schedule?.timezone],
  ].filter(([, value]) => value).map(([name, value]) => `${name} ${quoted(value)}`);
  const many = (name, values) => options.push(...values.map((value) => `${name} ${quoted(value)}`));
  for (const [name, field] of [["--image", "image"], ["--image-auth", "imageAuthId"], ["--min-cuda", "minCuda"], ["--command", "command"], ["--entrypoint", "entrypoint"]]) if (field in body) many(name, [body[field]]);
  many("--port", body.ports ?? []);
  for (const [name, field] of [["--env", "env"], ["--label", "labels"]]) many(name, Object.entries(body[field] ?? {}).map((pair) => pair.join("=")));
  many("--secret", Object.keys(body.secrets ?? {}).map((name) => `${name}=@FILE`));
  many("--volume", (body.volumes ?? []).map(({ id, mount }) => `${id}:${mount}`));
  if (body.billingMode === "onDemand") options.push("--on-demand");
  if (body.spotFallback) options.push("--spot-fallback");
  return ["corral", "create", quoted(body.name), ...options, `--url ${quoted(location.origin + ROOT)}`].join(" ");
}

// Without the values of secrets: what is shown can be seen by others, and a copied command is kept by the shell.
const shownBody = ({ secrets, ...body }) => (secrets ? { ...body, secrets: Object.fromEntries(Object.keys(secrets).map((name) => [name, "VALUE"])) } : body);

export function curlCommand(bodies, needsKey) {
  const key = needsKey ? ` -H "Authorization: Bearer $CORRAL_API_KEY"` : "";
  return bodies.map((body) => `curl -X POST ${quoted(`${location.origin}${ROOT}/api/instances`)}${key} -H 'content-type: application/json' -d ${quoted(JSON.stringify(shownBody(body)))}`).join("\n");
}
