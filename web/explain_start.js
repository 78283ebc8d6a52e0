// Draws the roofline, and changes the page when another rank is chosen.
function drawRoofline(rank) {
  const device = rank.device || {}, peak = device.peak_flop_per_s, bandwidth = device.bandwidth_bytes_per_s;
  const dots = rank.operators.filter((row) => row.flop && row.bytes && row.duration_ns).map((row) => ({ row, x: row.flop / row.bytes, y: row.flop / row.duration_ns * 1e9 }));
  byId("roofline-section").hidden = !peak || !bandwidth || !dots.length;
  if (byId("roofline-section").hidden) return;
  const wide = 1100, high = 330, left = 84, low = 36, ridge = peak / bandwidth;
  const xs = dots.map((dot) => dot.x).concat([ridge / 16, ridge * 8]), ys = dots.map((dot) => dot.y).concat([peak, peak / 1000]);
  const bound = (values) => [Math.floor(Math.log10(Math.min(...values))), Math.ceil(Math.log10(Math.max(...values)))];
  const [x0, x1] = bound(xs), [y0, y1] = bound(ys);
  const x = (value) => left + (Math.log10(value) - x0) / (x1 - x0) * (wide - left - 10), y = (value) => 10 + (y1 - Math.log10(value)) / (y1 - y0) * (high - low - 10);
  const svg = (tag, attributes, text) => { const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    if (text) made.textContent = text; return made; };
  const root = svg("svg", { viewBox: `0 0 ${wide} ${high}`, role: "img", "aria-label": "roofline" });
  for (let power = x0; power <= x1; ++power) root.append(svg("line", { class: "axis", x1: x(10 ** power), x2: x(10 ** power), y1: 10, y2: high - low }), svg("text", { x: x(10 ** power) + 3, y: high - low + 14 }, `${10 ** power}`));
  for (let power = y0; power <= y1; ++power) root.append(svg("line", { class: "axis", x1: left, x2: wide - 10, y1: y(10 ** power), y2: y(10 ** power) }), svg("text", { x: 2, y: y(10 ** power) + 4 }, rate(10 ** power)));
  root.append(svg("text", { x: wide - 190, y: high - 4 }, "FLOP a byte of operands"), svg("path", { class: "roof", d: `M${x(10 ** x0)},${y(bandwidth * 10 ** x0)} L${x(ridge)},${y(peak)} L${x(10 ** x1)},${y(peak)}` }));
  const longest = dots.reduce((most, dot) => Math.max(most, dot.row.duration_ns), 1);
  for (const dot of dots) {
    const circle = svg("circle", { class: "dot", cx: x(dot.x), cy: y(dot.y), r: 3 + 13 * Math.sqrt(dot.row.duration_ns / longest) });
    circle.append(svg("title", {}, `${dot.row.name} ${typeof dot.row.shapes === "string" ? dot.row.shapes : JSON.stringify(dot.row.shapes)}: ${rate(dot.y)}, ${dot.x.toFixed(1)} FLOP a byte, ${time(dot.row.duration_ns)}`));
    root.append(circle);
  }
  byId("roofline").replaceChildren(root, element("p", { class: "hint" }, `Roof: ${rate(peak)} ${device.dtype || ""} and ${scaled(bandwidth, ["B/s", "kB/s", "MB/s", "GB/s", "TB/s"])}. A dot is an operator with its shapes; its area is its time.`));
}

function choose(index) {
  chosen = index;
  const rank = ranks[index];
  byId("rank").value = index;
  drawHeadline(rank); drawFindings(rank); drawLedger(rank); drawTables(rank); drawRoofline(rank); drawMethod(rank); loadTimeline(index);
  document.querySelectorAll(".heat .rank").forEach((button) => button.classList.toggle("chosen", Number(button.dataset.rank) === index));
}

function start() {
  byId("subject").textContent = ranks.length > 1 ? `${ranks.length} ranks` : (ranks[0].path || "");
  byId("theme").addEventListener("click", () => {
    const root = document.documentElement, dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    drawTimeline();
  });
  ranks.forEach((rank, index) => byId("rank").append(element("option", { value: index }, rankName(rank, index))));
  byId("rank-choice").hidden = ranks.length < 2;
  byId("rank").addEventListener("change", (event) => choose(Number(event.target.value)));
  drawRanks(); wireTimeline();
  const slowest = ranks.findIndex((rank) => rank.rank !== null && rank.rank === report.summary.slowest_rank);
  choose(Math.max(0, slowest));
}
start();
