// Draws lanes on a canvas: the steps, the line of the ledger for each instant, the device streams and the host threads. It draws only what
// is in view.
const timeline = { from: 0, to: 1, whole: 1, lane: 22, left: 128, rows: [], drawn: [], data: null };

function laneRows(lanes) {
  const rows = lanes.lanes.map((lane) => ({ label: lane.label, group: lane.group, start: [], length: [], name: [], line: [], events: [] }));
  lanes.lane.forEach((lane, index) => {
    const row = rows[lane];
    row.start.push(lanes.start_ns[index]); row.length.push(lanes.duration_ns[index]); row.name.push(lanes.name[index]);
    row.line.push(lanes.line[index]); row.events.push(lanes.events[index]);
  });
  return rows;
}

function loadTimeline(index) {
  const lanes = (data.timeline || [])[index];
  byId("timeline-section").hidden = !lanes || !lanes.lane.length;
  if (byId("timeline-section").hidden) return;
  timeline.data = lanes;
  timeline.rows = laneRows(lanes);
  timeline.whole = Math.max(1, ranks[index].window.duration_ns);
  timeline.from = 0; timeline.to = timeline.whole;
  byId("timeline-note").textContent = lanes.merged ? `${count(lanes.merged)} events too short to see are drawn joined with their neighbours.` : "";
  drawTimeline();
}

function firstEndingAfter(row, at) {  // the blocks of a lane are sorted and do not overlap
  let low = 0, high = row.start.length;
  while (low < high) { const middle = (low + high) >> 1; if (row.start[middle] + row.length[middle] < at) low = middle + 1; else high = middle; }
  return low;
}

function niceStep(span, most) {
  const raw = span / most, power = 10 ** Math.floor(Math.log10(raw));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= raw);
}

function drawTimeline() {
  const canvas = byId("lanes"), { lane, left, rows, from, to } = timeline;
  if (!timeline.data) return;
  const width = byId("timeline").clientWidth || 800, top = 44, height = top + rows.length * lane + 8, ratio = window.devicePixelRatio || 1;
  canvas.width = width * ratio; canvas.height = height * ratio; canvas.style.height = `${height}px`;
  const style = getComputedStyle(document.documentElement), color = (name) => style.getPropertyValue(name).trim();
  const colors = ORDER.map((line, index) => color(`--l${index}`)), host = color("--host");
  const pen = canvas.getContext("2d"), x = (ns) => left + (ns - from) / (to - from) * (width - left);
  pen.scale(ratio, ratio); pen.font = "11px system-ui, 'DejaVu Sans', sans-serif"; pen.textBaseline = "middle";
  pen.clearRect(0, 0, width, height);
  const step = niceStep(to - from, Math.max(2, (width - left) / 110));
  for (let tick = Math.ceil(from / step) * step; tick <= to; tick += step) {
    pen.fillStyle = color("--rule"); pen.fillRect(x(tick), 14, 1, height - 14);
    pen.fillStyle = color("--soft"); pen.fillText(time(Math.round(tick)), x(tick) + 3, 8);
  }
  pen.save(); pen.beginPath(); pen.rect(left, 14, width - left, 26); pen.clip();
  timeline.data.steps.forEach((marked, index) => {
    const at = x(marked.start_ns), wide = x(marked.start_ns + marked.duration_ns) - at;
    pen.fillStyle = color("--accent"); pen.globalAlpha = index % 2 ? 0.16 : 0.3; pen.fillRect(at, 20, Math.max(1, wide - 1), 18); pen.globalAlpha = 1;
    if (wide > 60) { pen.fillStyle = color("--ink"); pen.fillText(marked.name, Math.max(at, left) + 4, 29, wide - 8); }
  });
  pen.restore();
  timeline.drawn = [];
  rows.forEach((row, number) => {
    const y = top + number * lane;
    pen.fillStyle = color("--soft"); pen.fillText(row.label, 6, y + lane / 2, left - 12);
    let painted = left - 1;
    for (let index = firstEndingAfter(row, from); index < row.start.length && row.start[index] <= to; ++index) {
      const begin = Math.max(left, x(row.start[index])), end = Math.min(width, x(row.start[index] + row.length[index]));
      if (end < painted + 0.3) continue;
      pen.fillStyle = row.line[index] < 0 ? host : colors[row.line[index]];
      pen.fillRect(begin, y + 2, Math.max(0.7, end - begin), lane - 4);
      painted = Math.max(begin + 0.7, end);
      if (end - begin > 46) { pen.fillStyle = "#fff"; pen.save(); pen.beginPath(); pen.rect(begin, y, end - begin - 3, lane); pen.clip();
        pen.fillText(timeline.data.names[row.name[index]], begin + 4, y + lane / 2); pen.restore(); }
    }
    timeline.drawn.push({ y, row });
  });
}

function zoomTimeline(factor, center) {
  const least = Math.min(timeline.whole, 200), span = Math.min(timeline.whole, Math.max(least, (timeline.to - timeline.from) * factor));
  const share = (center - timeline.from) / (timeline.to - timeline.from);
  moveTimeline(center - share * span, span);
}

function moveTimeline(from, span) {
  timeline.from = Math.max(0, Math.min(from, timeline.whole - span));
  timeline.to = timeline.from + span;
  byId("lanes").dataset.spanNs = Math.round(span);
  requestAnimationFrame(drawTimeline);
}

function timeAt(event) {
  const box = byId("lanes").getBoundingClientRect();
  return timeline.from + Math.max(0, event.clientX - box.left - timeline.left) / (box.width - timeline.left) * (timeline.to - timeline.from);
}

function showTip(event) {
  const box = byId("lanes").getBoundingClientRect(), y = event.clientY - box.top, at = timeAt(event), tip = byId("tip");
  const under = timeline.drawn.find((drawn) => y >= drawn.y && y < drawn.y + timeline.lane);
  const slack = (timeline.to - timeline.from) / box.width;
  const index = under ? firstEndingAfter(under.row, at - slack) : -1;
  const row = under && under.row;
  if (!row || index >= row.start.length || row.start[index] > at + slack) { tip.hidden = true; return; }
  const joined = row.events[index] > 1 ? ` · ${count(row.events[index])} events joined` : "";
  tip.replaceChildren(element("b", {}, timeline.data.names[row.name[index]]), element("div", {}, `${row.label} · ${time(row.length[index])} at ${time(row.start[index])}${joined}`),
    row.line[index] >= 0 ? element("div", {}, lineName(ORDER[row.line[index]])) : "");
  tip.hidden = false;
  tip.style.left = `${Math.min(event.clientX - box.left + 12, box.width - 300)}px`;
  tip.style.top = `${Math.min(y + 14, Math.max(0, box.height - 60))}px`;
}

function wireTimeline() {
  const canvas = byId("lanes");
  let held = null;
  canvas.addEventListener("wheel", (event) => { event.preventDefault(); zoomTimeline(event.deltaY > 0 ? 1.25 : 0.8, timeAt(event)); }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => { held = { x: event.clientX, from: timeline.from }; canvas.setPointerCapture(event.pointerId); });
  canvas.addEventListener("pointerup", () => { held = null; });
  canvas.addEventListener("pointerleave", () => { byId("tip").hidden = true; });
  canvas.addEventListener("pointermove", (event) => {
    if (!held) { showTip(event); return; }
    const span = timeline.to - timeline.from, wide = canvas.clientWidth - timeline.left;
    moveTimeline(held.from - (event.clientX - held.x) / wide * span, span);
  });
  canvas.addEventListener("dblclick", () => moveTimeline(0, timeline.whole));
  canvas.addEventListener("keydown", (event) => {
    const span = timeline.to - timeline.from, middle = (timeline.from + timeline.to) / 2;
    const act = { "+": () => zoomTimeline(0.5, middle), "=": () => zoomTimeline(0.5, middle), "-": () => zoomTimeline(2, middle), "0": () => moveTimeline(0, timeline.whole),
      ArrowLeft: () => moveTimeline(timeline.from - span / 5, span), ArrowRight: () => moveTimeline(timeline.from + span / 5, span) }[event.key];
    if (act) { event.preventDefault(); act(); }
  });
  window.addEventListener("resize", drawTimeline);
}
