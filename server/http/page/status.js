// Fetches /status.json every two seconds and shows it. Text goes in as text, never as HTML.
"use strict";

const REFRESH_MS = 2000;
const SLOTS = 60;  // the history's samples
const $ = (id) => document.getElementById(id);

// ---- numbers for people

function seconds(value) {
  if (value === null) return "–";
  const [scale, unit] = value < 1e-3 ? [1e6, "µs"] : value < 1 ? [1e3, "ms"] : [1, "s"];
  return `${Number((value * scale).toPrecision(3))} ${unit}`;
}

function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  for (; value >= 1024 && i < units.length - 1; i++) value /= 1024;
  return `${Number(value.toPrecision(3))} ${units[i]}`;
}

function count(value) {
  if (value >= 1e9) return `${(value / 1e9).toPrecision(3)} G`;
  if (value >= 1e6) return `${(value / 1e6).toPrecision(3)} M`;
  if (value >= 1e4) return `${(value / 1e3).toPrecision(3)} k`;
  return String(value >= 100 ? Math.round(value) : Number(value.toPrecision(3)));
}

// Of a power of two: 512, 1k, 2k, ..., 1M.
function binary(value) {
  if (value < 1024) return String(value);
  return value < 1 << 20 ? `${value / 1024}k` : `${value / (1 << 20)}M`;
}

const percent = (share) => `${Math.round(share * 100)} %`;

function age(value) {
  const parts = [[86400, "d"], [3600, "h"], [60, "min"]].filter(([size]) => value >= size);
  if (!parts.length) return `${Math.floor(value)} s`;
  const [size, unit] = parts[0];
  return `${Math.floor(value / size)} ${unit}`;
}

const clock = new Intl.DateTimeFormat([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });

// ---- elements

function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

const cell = (text) => element("td", {}, text);
const number = (text) => element("td", { class: "number" }, text);
const small = (text) => element("span", { class: "model" }, text);
const rowHeader = (...content) => element("th", { scope: "row" }, ...content);
// "FactorizeStream" may go over two lines.
const breakable = (name) => name.split(/(?=[A-Z])/).flatMap((part) => [element("wbr", {}), part]);
const ended = (rpc) => element("td", { class: "number" }, count(rpc.count), ...(rpc.failed > 0 ? [small(`${count(rpc.failed)} failed`)] : []));
const pill = (text, good) => element("td", {}, element("span", { class: `pill ${good ? "good" : "bad"}` }, text));

function fill(id, rows) {
  $(id).replaceChildren(...rows);
}

// Of a table that may have no rows: a note in its place.
function fillOrSay(id, rows) {
  fill(id, rows);
  $(id).closest(".table").hidden = rows.length === 0;
  $(`${id}-empty`).hidden = rows.length > 0;
}

// ---- sections

function showHeader(status) {
  const state = $("state");
  if (state.textContent !== status.state) state.textContent = status.state;
  state.className = `badge ${status.ready ? "good" : "bad"}`;
  $("about").textContent = `version ${status.version}, up ${age(status.uptime_s)}`;
  document.title = `factord: ${status.state}`;
  const over = status.window_s < 1 ? "so far" : `in the last ${Math.round(status.window_s)} s`;
  for (const place of document.querySelectorAll(".window")) place.textContent = over;
}

function tile(name, values, format) {
  const last = values.length ? values[values.length - 1] : 0;
  return element("div", { class: "tile" }, element("div", { class: "name" }, name), element("div", { class: "value" }, format(last)),
    lineChart(values, SLOTS, `${name}: ${format(last)} now, ${format(Math.max(...values, 0))} at most in the last two minutes`));
}

function showTraffic(status) {
  const past = status.history;
  fill("tiles", [
    tile("requests/s", past.requests_per_s, count),
    tile("matrices/s", past.matrices_per_s, count),
    tile("lanes busy", past.busy_share, percent),
    tile("jobs waiting", past.queue_jobs, count),
  ]);
  const used = status.requests.filter((rpc) => rpc.total > 0);
  $("traffic-empty").hidden = used.length > 0;
  $("requests").closest(".table").hidden = used.length === 0;
  fill("requests", used.map((rpc) => element("tr", {}, rowHeader(...breakable(rpc.name)),
    ended(rpc), number(seconds(rpc.p50_s)), number(seconds(rpc.p95_s)), number(seconds(rpc.p99_s)))));
}

function showStages(stages) {
  const told = stages.map((one) => `${one.name} ${seconds(one.p50_s)}`).join(", ");
  fill("stages-chart", [rangeChart(stages, seconds, `Latency by stage, medians: ${told}`)]);
  fill("stages", stages.map((one) => element("tr", {}, rowHeader(one.name), number(count(one.count)), number(seconds(one.p50_s)),
    number(seconds(one.p95_s)), number(seconds(one.p99_s)))));
}

function showBatches(batches) {
  const last = batches.sizes.reduce((found, size, i) => (size.batches > 0 ? i : found), 9);
  const columns = batches.sizes.slice(0, Math.max(last + 1, 10)).map((size) => (
    { name: binary(size.up_to), value: size.batches, title: `up to ${size.up_to} matrices: ${size.batches} batches` }));
  fill("sizes-chart", [columnChart(columns, `Batches by their number of matrices: ${columns.filter((one) => one.value).map((one) => one.title).join("; ") || "none"}`)]);
  const reasons = Object.entries(batches.close_reasons).map(([name, value]) => ({ name, value, text: count(value) }));
  fill("reasons-chart", [barChart(reasons, `Batches by why they were closed: ${reasons.map((one) => `${one.name} ${one.text}`).join(", ")}`)]);
  $("batch-count").textContent = count(batches.count);
}

function takenOf(memory) {
  const parts = [];
  if (memory.reserved > 0) parts.push(`${bytes(memory.reserved)} reserved`);
  if (memory.pinned > 0) parts.push(`${bytes(memory.pinned)} pinned`);
  return parts.join(", ");
}

function showDevices(status) {
  fill("devices", status.devices.map((device) => element("tr", {},
    rowHeader(device.name, small(device.model)), pill(device.healthy ? "healthy" : "lost", device.healthy),
    element("td", {}, meter(device.busy_share, `busy ${percent(device.busy_share)}`), percent(device.busy_share),
      small(device.lanes === 1 ? "1 lane" : `${device.lanes} lanes`)),
    element("td", {}, bytes(device.memory.total), small(takenOf(device.memory))))));
  const memory = status.memory;
  $("budget").textContent = `${bytes(memory.in_flight_bytes)} of the ${bytes(memory.budget_bytes)} memory budget in use; ` +
    `${count(status.queue.running_jobs)} jobs on lanes, ${count(status.streams)} streams open`;
}

function showBuckets(queue) {
  fillOrSay("buckets", queue.buckets.map((bucket) => element("tr", {}, rowHeader(bucket.name, small(`for the ${bucket.backend}`)), cell(bucket.type),
    number(count(bucket.jobs)), number(count(bucket.matrices)), number(seconds(bucket.oldest_s)))));
  const more = queue.bucket_count - queue.buckets.length;
  $("buckets-more").textContent = more > 0 ? `and ${more} more buckets` : "";
}

function showRefusals(refusals) {
  fillOrSay("refusals", refusals.map((one) => element("tr", {}, cell(clock.format(one.time_unix_ms)),
    element("td", {}, one.reason, small(one.rpc)), cell(one.message))));
}

function showSettings(settings) {
  fill("settings", settings.flatMap((one) => [element("dt", {}, one.name), element("dd", {}, one.value)]));
}

// ---- the plan of a shape

const PLAN_ROWS = [
  ["runs on", (one) => `${one.backend.replace("BACKEND_", "").toLowerCase()} (${one.device})`],
  ["why", (one) => one.reason],
  ["path", (one) => one.path],
  ["bucket", (one) => one.bucket],
  ["jobs", (one) => count(Number(one.jobs))],
  ["work", (one) => `${count(one.flops)}flop`],
  ["bytes in, out", (one) => `${bytes(Number(one.input_bytes))}, ${bytes(Number(one.output_bytes))}`],
  ["predicted", (one) => `${seconds(one.predicted_ns / 1e9)}, ${one.measured ? "measured here" : "by a default rate"}`],
];

function planOf(one) {
  return element("dl", {}, ...PLAN_ROWS.flatMap(([name, text]) => [element("dt", {}, name), element("dd", {}, text(one))]));
}

async function lookUp(event) {
  event.preventDefault();
  const query = new URLSearchParams(new FormData($("plan")));
  let shown;
  try {
    const answer = await (await fetch(`/explain.json?${query}`)).json();
    shown = answer.error ? element("p", { class: "error" }, answer.error) : planOf(answer.explanations[0]);
  } catch {
    shown = element("p", { class: "error" }, "The server does not answer.");
  }
  $("plan-answer").replaceChildren(shown);
}

// ---- every two seconds

function show(status) {
  showHeader(status);
  showTraffic(status);
  showStages(status.stages);
  showBatches(status.batches);
  showDevices(status);
  showBuckets(status.queue);
  showRefusals(status.refusals);
  showSettings(status.settings);
}

async function refresh() {
  try {
    show(await (await fetch("/status.json")).json());
  } catch {
    $("state").textContent = "no answer";
    $("state").className = "badge bad";
  }
  setTimeout(refresh, REFRESH_MS);
}

$("plan").addEventListener("submit", lookUp);
refresh();
