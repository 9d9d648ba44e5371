// The same request as a `corral` command and as curl, for scripts.

import { ROOT } from "../shared/root.js";

const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

// The command; null if it has no option for something in *body*.
export function corralCommand(body, count) {
  if (body.healthCheck) return null;
  const options = [
    ["--product", body.productName], ["--template", body.templateId], ["--gpus", body.gpuNum !== "1" && body.gpuNum], ["--disk", body.rootfsSize !== "60" && body.rootfsSize],
    ["--region", body.region], ["--regions", body.regions?.join(",")], ["--max-price", body.maxPrice], ["--until-available", body.waitForCapacity], ["--webhook", body.webhookUrl], ["--count", count > 1 && String(count)],
  ].filter(([, value]) => value).map(([name, value]) => `${name} ${quoted(value)}`);
  if (body.billingMode === "onDemand") options.push("--on-demand");
  if (body.spotFallback) options.push("--spot-fallback");
  return ["corral", "create", quoted(body.name), ...options, `--url ${quoted(location.origin + ROOT)}`].join(" ");
}

export function curlCommand(bodies, needsKey) {
  const key = needsKey ? ` -H "Authorization: Bearer $CORRAL_API_KEY"` : "";
  return bodies.map((body) => `curl -X POST ${quoted(`${location.origin}${ROOT}/api/instances`)}${key} -H 'content-type: application/json' -d ${quoted(JSON.stringify(body))}`).join("\n");
}
