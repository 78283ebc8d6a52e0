"use strict";
// Draws the report from the JSON in the page. Text from the trace is set by textContent only, so that none of it becomes markup.
const data = JSON.parse(document.getElementById("data").textContent);
const report = data.explain, ranks = report.ranks;
let chosen = 0;

const LINES = {
  matmul_at_peak: ["matmul, at peak", "what the useful matrix multiplies would have taken at the device's peak, at most the time they took; without calls faster than the peak this is the MFU"],
  matmul_below_peak: ["matmul, below peak", "the rest of the time those multiplies took"],
  matmul_flop_unknown: ["matmul, FLOP unknown", "matrix multiplies whose shapes, or whose peak, are not known"],
  recomputation: ["recomputation", "activation checkpointing ran the forward again"],
  other_kernels: ["other kernels", "norms, activations, optimizer, copies that kernels do"],
  exposed_communication_wait: ["communication, waiting", "a collective waited for another rank, and nothing else ran"],
  exposed_communication_transfer: ["communication, transfer", "a collective moved data, and nothing else ran"],
  exposed_copy: ["copies", "memcpy or memset, while nothing else ran"],
  idle_data: ["idle: data", "nothing ran; the host was in the data loader"],
  idle_launch: ["idle: launch", "nothing ran; the host had not launched the next kernel yet"],
  idle_synchronization: ["idle: synchronisation", "nothing ran; the host waited in a synchronise"],
  idle_unknown: ["idle: unknown", "nothing ran; the trace does not say why"],
};
const ORDER = Object.keys(LINES);

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "style") Object.assign(made.style, value);
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== null && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children) if (child !== null && child !== undefined) made.append(child);
  return made;
}
const byId = (id) => document.getElementById(id);
const lineColor = (line) => `var(--l${ORDER.indexOf(line)})`;
const lineName = (line) => (LINES[line] || [line, ""])[0];

function scaled(value, units, step = 1000) {
  let index = 0;
  while (Math.abs(value) >= step && index < units.length - 1) { value /= step; ++index; }
  const digits = index === 0 && Number.isInteger(value) ? 0 : Math.abs(value) >= 100 ? 1 : Math.abs(value) >= 10 ? 2 : 3;
  return `${value.toFixed(digits)} ${units[index]}`;
}
const time = (ns) => scaled(ns, ["ns", "µs", "ms", "s"]);
const percent = (fraction, digits = 1) => fraction === null || fraction === undefined ? "unknown" : `${(100 * fraction).toFixed(digits)}%`;
const count = (value) => value === null || value === undefined ? "unknown" : value.toLocaleString("en");
const flop = (value) => value === null || value === undefined ? "unknown" : scaled(value, ["FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP"]);
const rate = (value) => value === null || value === undefined ? "" : scaled(value, ["FLOP/s", "kFLOP/s", "MFLOP/s", "GFLOP/s", "TFLOP/s", "PFLOP/s"]);
const rankName = (rank, index) => rank.rank === null || rank.rank === undefined ? (rank.path || `file ${index}`) : `rank ${rank.rank}`;
const rating = (mfu) => mfu >= 0.5 ? "good" : mfu >= 0.2 ? "fair" : mfu >= 0.1 ? "low" : "very low";

function drawHeadline(rank) {
  const device = rank.device || {};
  const fact = (name, value) => element("span", { class: "fact" }, element("span", { class: "label" }, `${name} `), element("b", {}, value));
  const box = element("div", { class: "big" },
    element("span", {}, element("span", { class: "value", id: "mfu-value" }, rank.mfu === null ? "MFU unknown" : percent(rank.mfu)),
      rank.mfu === null ? null : element("span", { class: "label" }, ` MFU · ${rating(rank.mfu)}`)),
    rank.hfu === null ? null : fact("HFU", percent(rank.hfu)),
    fact("device", device.name || "unknown"),
    device.peak_flop_per_s ? fact("peak", `${rate(device.peak_flop_per_s)} ${device.dtype || ""}`) : fact("peak", "not known: the notes say what to give"),
    rank.cpu && rank.cpu.cores_used ? fact("cores", `${rank.cpu.cores_used.toFixed(1)} of ${rank.cpu.cores_available} busy, ${rank.cpu.threads} threads`) : null,
    fact("window", `${time(rank.window.duration_ns)}, ${rank.window.steps ? `${rank.window.steps} steps` : rank.window.policy}`));
  const parts = [box];
  const faster = (rank.note_codes || []).findIndex((note) => note.code === "faster_than_peak");
  if (faster >= 0) parts.push(element("p", { class: "published" }, rank.notes[faster]));
  const published = rank.published || report.summary.published || [];
  if (published.length) parts.push(element("p", { class: "published" }, "Published for comparison: " + published.map((run) => `${run.model} on ${run.device} ${percent(run.mfu)}`).join(" · ")));
  if (report.partial) parts.push(element("p", { class: "warning" }, "The file ends early: this is what could be read of it."));
  byId("headline").replaceChildren(...parts);
}

function drawFindings(rank) {
  const findings = rank.findings.length ? rank.findings : [];
  const cards = findings.map((finding, index) => element("article", { class: "finding", "data-cause": finding.cause },
    element("h3", {}, element("span", {}, `${index + 1}. ${finding.title}`),
      element("span", { class: "gain" }, finding.gain_ceiling_mfu >= 0.0005
        ? `up to +${(100 * finding.gain_ceiling_mfu).toFixed(1)} points of MFU` : finding.gain_ceiling_ns ? `up to ${time(finding.gain_ceiling_ns)}` : "")),
    element("ul", {}, ...finding.evidence.map((line) => element("li", {}, line))),
    element("p", { class: "fix" }, finding.fix)));
  if (!cards.length) cards.push(element("article", { class: "finding good" }, "Nothing stands out: no single cause takes enough to be worth a change."));
  byId("findings").replaceChildren(...cards);
}

function drawLedger(rank) {
  const whole = rank.window.duration_ns || 1;
  const lines = rank.ledger.filter((entry) => entry.duration_ns > 0);
  const bar = element("div", { class: "bar", role: "img", "aria-label": "ledger" }, ...lines.map((entry) => element("div", {
    title: `${lineName(entry.line)} ${percent(entry.duration_ns / whole)}`, style: { flex: `${entry.duration_ns} 0 0`, background: lineColor(entry.line) } })));
  const rows = rank.ledger.map((entry) => element("tr", { class: entry.duration_ns ? "" : "zero", "data-line": entry.line },
    element("td", { class: "line" }, element("span", { class: "swatch", style: { background: lineColor(entry.line) } }), lineName(entry.line)),
    element("td", { class: "number" }, time(entry.duration_ns)), element("td", { class: "number" }, percent(entry.duration_ns / whole, 2)),
    element("td", { class: "meter" }, entry.duration_ns === 0 ? null : element("i", { style: { width: percent(entry.duration_ns / whole, 3), background: lineColor(entry.line) } })),
    element("td", {}, (LINES[entry.line] || ["", ""])[1])));
  const total = rank.ledger.reduce((sum, entry) => sum + entry.duration_ns, 0);
  rows.push(element("tr", {}, element("td", {}, element("b", {}, "window")), element("td", { class: "number" }, time(total)),
    element("td", { class: "number" }, percent(total / whole, 2)), element("td"), element("td", {}, `${count(total)} ns: the lines add up to it exactly`)));
  byId("ledger").replaceChildren(bar, element("table", {}, element("tbody", {}, ...rows)));
}

function drawRanks() {
  if (ranks.length < 2) return;
  byId("ranks-section").hidden = false;
  const cells = [element("span", { class: "head" }, ""), element("span", { class: "head" }, "window")].concat(ORDER.map((line) => element("span", { class: "head" }, lineName(line))));
  const most = Object.fromEntries(ORDER.map((line) => [line, Math.max(...ranks.map((rank) => (rank.ledger.find((entry) => entry.line === line) || { fraction: 0 }).fraction))]));
  ranks.forEach((rank, index) => {
    const slowest = report.summary.slowest_rank !== null && rank.rank === report.summary.slowest_rank;
    cells.push(element("button", { type: "button", class: "rank", "data-rank": index, onclick: () => choose(index) }, rankName(rank, index) + (slowest ? " · slowest" : "")));
    cells.push(element("button", { type: "button", onclick: () => choose(index) }, time(rank.window.duration_ns)));
    for (const line of ORDER) {
      const fraction = (rank.ledger.find((entry) => entry.line === line) || { fraction: 0 }).fraction;
      const share = most[line] ? Math.round(85 * fraction / most[line]) : 0;
      cells.push(element("button", { type: "button", title: `${rankName(rank, index)}: ${lineName(line)} ${percent(fraction, 2)}`, onclick: () => choose(index),
        style: { background: `color-mix(in srgb, ${lineColor(line)} ${share}%, var(--card))` } }, fraction ? percent(fraction) : "·"));
    }
  });
  byId("ranks").replaceChildren(element("div", { class: "heat", style: { gridTemplateColumns: `minmax(7em, max-content) 6em repeat(${ORDER.length}, minmax(5.6em, 1fr))` } }, ...cells));
}

// columns: [title, key, kind, shown]. The kind "number" is sorted by value and aligned to the right; `shown` makes the text.
function drawTable(where, columns, rows, sortBy) {
  let key = sortBy, down = true, filter = "";
  const place = byId(where), note = element("span"), body = element("tbody");
  const heads = columns.map(([title, name, kind]) => element("th", { class: kind, scope: "col", onclick: () => { down = key === name ? !down : kind === "number"; key = name; fill(); } }, title));
  const text = (row) => columns.map(([, name]) => String(row[name] ?? "")).join(" ").toLowerCase();
  function fill() {
    const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
    const shown = rows.filter((row) => words.every((word) => text(row).includes(word)));
    const order = (a, b) => { const x = a[key], y = b[key];
      if (x === null || x === undefined) return y === null || y === undefined ? 0 : 1;
      if (y === null || y === undefined) return -1;
      return (typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y))) * (down ? -1 : 1); };
    shown.sort(order);
    heads.forEach((head, index) => head.setAttribute("aria-sort", columns[index][1] === key ? (down ? "descending" : "ascending") : "none"));
    body.replaceChildren(...shown.slice(0, 500).map((row) => element("tr", {}, ...columns.map(([, name, kind, show]) => element("td", { class: kind }, show ? show(row[name], row) : String(row[name] ?? ""))))));
    note.textContent = `${Math.min(shown.length, 500)} of ${rows.length}`;
  }
  const input = element("input", { type: "search", placeholder: "filter by name, shape, type", "aria-label": `filter ${where}`, oninput: () => { filter = input.value; fill(); } });
  place.replaceChildren(element("div", { class: "tools" }, input, note), element("div", { class: "scroll" }, element("table", {}, element("thead", {}, element("tr", {}, ...heads)), body)));
  fill();
}

// If a rate is above the peak, the cell says why, as text and JSON do.
const aboveWhy = { fewer_multiplications: "multiplies less", contradiction: "cannot be" };
const ofPeak = (value, row) => value === null || value === undefined ? "" : (row.above_peak ? `${aboveWhy[row.above_peak]}: ` : "") + percent(value);

function drawTables(rank) {
  const shapes = (value) => typeof value === "string" ? value : JSON.stringify(value);
  const whole = rank.window.duration_ns || 1;
  const share = (row) => ({ ...row, share: row.duration_ns / whole });
  drawTable("operators", [["operator", "name", "name"], ["shapes", "shapes", "name", shapes], ["type", "dtype", ""], ["calls", "calls", "number", count], ["time", "duration_ns", "number", time],
    ["of window", "share", "number", (value) => percent(value)], ["FLOP", "flop", "number", flop], ["rate", "flop_per_s", "number", rate], ["of peak", "peak_fraction", "number", ofPeak]], rank.operators.map(share), "duration_ns");
  drawTable("kernels", [["kernel", "name", "name"], ["kind", "kind", ""], ["calls", "calls", "number", count], ["time", "duration_ns", "number", time], ["of window", "share", "number", (value) => percent(value)]], rank.kernels.map(share), "duration_ns");
}

function drawMethod(rank) {
  const coverage = rank.coverage, rows = [];
  const add = (name, value) => rows.push(element("dt", {}, name), element("dd", {}, value));
  add("file", rank.path || "");
  add("peak", (rank.device || {}).peak_source || "not known");
  add("device events", `${count(coverage.gpu_events)}; linked to an operator ${percent(coverage.linked_fraction)}, with shapes ${percent(coverage.with_shapes_fraction)}, launched by a graph ${percent(coverage.graph_launched_fraction)} of device time`);
  add("mended", `${count(coverage.clipped_events)} events clipped, ${count(coverage.skipped_events)} skipped`);
  if ((coverage.uncounted || []).length) add("not counted", coverage.uncounted.map((entry) => typeof entry === "string" ? entry : `${entry.operator} (${count(entry.calls)} calls)`).join(", "));
  add("model FLOP", flop(rank.model_flop)); add("hardware FLOP", flop(rank.hardware_flop));
  const intervals = rank.intervals || {};
  add("unions", Object.entries(intervals).map(([name, ns]) => `${name.replace(/_ns$/, "").replaceAll("_", " ")} ${time(ns)}`).join(" · "));
  for (const note of new Set((rank.notes || []).concat(report.notes || []))) add("note", note);
  byId("method").replaceChildren(element("dl", {}, ...rows));
}
