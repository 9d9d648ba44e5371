// How to reach the machine, and what the health checks saw.

import { $, el, webAddress } from "../shared/dom.js";
import { words } from "../shared/format.js";
import { badge, copyable, facts, render, table } from "../shared/parts.js";
import { age } from "../shared/time.js";

export function showConnection({ status, connectionDetails: { ssh, jupyter, webTerminal }, portMappings }) {
  const ways = [
    ssh && ["SSH", copyable(ssh, "the ssh command")],
    jupyter && ["Jupyter", address(jupyter, "the address of Jupyter")],
    webTerminal && ["Terminal", address(webTerminal, "the address of the terminal")],
    ...portMappings.map(({ port, type, endpoint }) => [`Port ${port} ${type}`, endpoint ? address(endpoint, `the address of port ${port}`) : "no address now"]),
  ].filter(Boolean);
  render($("connection"), [status, ssh, jupyter, webTerminal, portMappings], () => [ways.length ? facts(ways) : el("p", { className: "note" }, NO_WAY[status] ?? "No address yet: the provider reports it once the machine runs.")]);
}

const NO_WAY = {
  exited: "None while it is stopped.",
  stopping: "None while it is being stopped.",
  deleting: "None while it is being deleted.",
  terminated: "None: it is gone.",
  failed: "None: it failed.",
  ready: "The provider reports no address for it.",
};

function address(text, what) {
  const known = webAddress(text);
  return el("span", {}, copyable(text, what), " ", known ? el("a", { className: "open", href: known, target: "_blank", rel: "noreferrer", "aria-label": `Open ${what}` }, "Open") : "");
}

export function showHealth({ healthCheck, status }) {
  if (!healthCheck) {
    const text = ["creating", "starting", "running"].includes(status) ? "Not checked yet: its ports are checked once it runs." : "Not checked.";
    return $("health").replaceChildren(el("p", { className: "note" }, text));
  }
  const { overallStatus, checks, endpoints, lastChecked } = healthCheck;
  $("health").replaceChildren(
    el("p", {}, badge(words(overallStatus), overallStatus === "healthy" ? "good" : "warn"), ` checked ${checks === 1 ? "once" : `${checks} times`}, last `, age(lastChecked)),
    table("Health checks", ["Port", "Status", "Answer"], endpoints.map((each) => [
      `${each.port} ${each.type}`,
      badge(each.status, each.status === "healthy" ? "good" : "bad"),
      each.error ? `${each.error.message} (${words(each.error.category)}${each.error.retryable ? "; checked again" : ""})` : `in ${each.responseTime} ms`,
    ])));
}
