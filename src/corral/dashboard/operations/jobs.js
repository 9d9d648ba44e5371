// The job queue: counts, the switch that pauses it, and the jobs that failed for good.

import { request } from "../shared/api.js";
import { el, notice } from "../shared/dom.js";
import { plural, span, words } from "../shared/format.js";
import { bodyOf, facts, instanceLink, render, table } from "../shared/parts.js";
import { age } from "../shared/time.js";
import { asking } from "./ask.js";

const FAILED = 50;

export async function show(changed) {
  const [stats, { jobs }] = await Promise.all([request("/api/jobs/stats"), request(`/api/jobs?status=failed&limit=${FAILED}`)]);
  render(bodyOf("jobs"), [stats, jobs], () => [
    el("p", { className: "line" }, stats.paused ? el("b", {}, `Paused by ${stats.pausedBy} since `, age(stats.pausedAt, "")) : "Jobs are processed.", toggle(stats, changed)),
    facts([
      ["Waiting", `${stats.pendingJobs}${stats.oldestPendingAgeMs > 1000 ? `, the oldest for ${span(stats.oldestPendingAgeMs)}` : ""}`],
      ["Running", String(stats.processingJobs)],
      ["Completed", `${stats.completedJobs} within the last day`],
      ["By type", Object.entries(stats.jobsByType).map(([type, count]) => `${words(type)} ${count}`).join(", ") || "none"],
    ]),
    el("h3", {}, `Failed (${stats.failedJobs})`),
    jobs.length ? failedTable(jobs) : el("p", { className: "note" }, "None."),
  ]);
}

function failedTable(jobs) {
  return table("Failed jobs", ["Job", "Instance", "Attempts", "Ended", "Error"], jobs.map((job) => [
    el("span", {}, words(job.type), el("br"), el("code", {}, job.id)),
    job.payload.instanceId ? instanceLink(String(job.payload.instanceId)) : "–",
    `${job.attempts} of ${job.maxAttempts}`, age(job.completedAt ?? job.createdAt), job.error ?? "–"]));
}

function toggle({ paused, pendingJobs }, changed) {
  const verb = paused ? "resume" : "pause";
  const question = paused
    ? { title: "Resume the processing of jobs?", what: `${plural(pendingJobs, "job")} waiting`, note: "They begin within a second, the most urgent first." }
    : { title: "Pause the processing of jobs?", what: "In every process on this database, until it is resumed", note: "Creates, starts, stops, deletes, health checks and webhooks wait. Machines go on running and are billed.", isDanger: true };
  const text = paused ? "Resume" : "Pause";
  return asking({ text, name: `${text} the jobs`, needs: "admin" }, question, async () => {
    await request(`/api/jobs/${verb}`, { method: "POST" });
    notice(paused ? "Jobs are processed again." : "Jobs are paused.");
    changed();
  });
}
