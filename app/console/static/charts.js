// Charts: draws the values of each [data-chart] with uPlot; the tables below have the same values, changes and lists.
(() => {
  "use strict";

  const HEIGHT = 180;
  const drawn = new Map(); // by id of the plot: the chart and its data
  // A canvas needs a resolved colour, and variables with light-dark() resolve on elements only.
  function resolved(name) {
    const probe = document.querySelector(".lines .line") || document.body;
    const before = probe.style.color;
    probe.style.color = `var(${name})`;
    const found = getComputedStyle(probe).color;
    probe.style.color = before;
    return found;
  }

  let zone = document.documentElement.dataset.zone;
  try {
    Intl.DateTimeFormat("en", { timeZone: zone });
  } catch {
    zone = "UTC"; // a browser may be older than the zone
  }

  const UNITS = [[86400000, "d"], [3600000, "h"], [60000, "min"], [1000, "s"], [1, "ms"]];
  function duration(ms) {
    if (ms === 0) return "0";
    const [size, unit] = UNITS.find(([size]) => ms >= size) || UNITS[4];
    return `${+(ms / size).toFixed(1)} ${unit}`;
  }
  const shown = (value, unit) => (value == null ? "–" : unit === "ms" ? `≤ ${duration(value)}` : value.toLocaleString("en"));
  const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", timeZone: zone });
  const day = (seconds) => new Date(seconds * 1000).toLocaleDateString("en", { day: "numeric", month: "short", timeZone: zone });
  const DECADES = [1, 10, 100, 1000, 10000, 60000, 600000, 3600000];

  // A value between two gaps has no line, and is drawn as a point.
  const lonely = (values) => values.flatMap((value, at) => (value != null && values[at - 1] == null && values[at + 1] == null ? [at] : []));

  // Changes: a dashed line through the chart at the instant of each.
  function mark(chart, data) {
    const { ctx, bbox } = chart;
    ctx.save();
    ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
    for (const { at, tone } of data.marks) {
      const x = chart.valToPos(at, "x", true);
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.strokeStyle = resolved(tone === "wait" ? "--soft" : `--${tone}`);
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
    }
    ctx.restore();
  }

  // A span that was dragged over: the deliveries of its steps.
  function list(chart, data, path) {
    const { left, width } = chart.select;
    if (!path || !width) return;
    const address = new URL(path, location.href);
    const instant = (seconds) => new Date(seconds * 1000).toISOString();
    const [from, until] = [data.at[chart.posToIdx(left)], data.ends[chart.posToIdx(left + width)]];
    if (from >= until) return chart.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false); // not counted yet
    address.searchParams.set("from", instant(from));
    address.searchParams.set("until", instant(until));
    location.assign(address);
  }

  function options(plot, data, path) {
    const axis = { stroke: resolved("--soft"), grid: { stroke: resolved("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
    const isTime = data.unit === "ms";
    const isLong = data.at.at(-1) - data.at[0] > 2 * 86400;
    return {
      width: plot.clientWidth || 400,
      height: HEIGHT,
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), zone),
      cursor: { y: false, drag: { x: Boolean(path), setScale: false } },
      legend: { show: false },
      scales: { x: { time: true }, y: isTime ? { distr: 3, log: 10 } : { range: (_chart, _low, high) => [0, high > 0 ? high * 1.1 : 1] } },
      axes: [{ ...axis, size: 26, values: (_chart, values) => values.map(isLong ? day : clock) }, { ...axis, size: 62, ...(isTime ? { splits: (_chart, _axis, low, high) => DECADES.filter((ms) => ms >= low && ms <= high) } : {}), values: (_chart, values) => values.map((value) => (value == null ? "" : isTime ? duration(value) : value.toLocaleString("en", { maximumSignificantDigits: 3 }))) }],
      series: [{}, ...data.lines.map((line) => {
        const colour = resolved(`--${line.tone}`);
        return { label: line.label, stroke: colour, width: 1.75, points: { show: true, size: 5, fill: colour, filter: () => lonely(line.values) }, spanGaps: false };
      })],
      hooks: {
        draw: [(chart) => mark(chart, data)],
        setCursor: [(chart) => tell(plot, data, chart.cursor.idx)],
        setSelect: [(chart) => list(chart, data, path)],
      },
    };
  }

  function tell(plot, data, index) {
    const tip = plot.querySelector(".chart-tip");
    if (!tip) return;
    const parts = data.lines.map((line) => `${line.label} ${shown(line.values[index], data.unit)}`);
    const next = data.at[index + 1] ?? Infinity;
    parts.push(...data.marks.filter(({ at }) => at >= data.at[index] && at < next).map(({ words }) => words));
    tip.textContent = index == null ? "" : `${clock(data.at[index])} ${zone} · ${parts.join(" · ")}`;
  }

  function draw(box) {
    const plot = box.firstElementChild;
    const known = drawn.get(plot.id);
    if (known && known.text === box.dataset.chart && known.plot === plot) return;
    known?.chart.destroy();
    plot.textContent = "";
    const data = JSON.parse(box.dataset.chart);
    // A logarithmic axis has no zero.
    const values = data.lines.map((line) => line.values.map((value) => (data.unit === "ms" && value === 0 ? 1 : value)));
    const chart = new uPlot(options(plot, data, box.dataset.list), [data.at, ...values], plot);
    const tip = document.createElement("p");
    tip.className = "chart-tip";
    tip.setAttribute("aria-hidden", "true");
    plot.append(tip);
    drawn.set(plot.id, { chart, plot, text: box.dataset.chart });
  }

  const all = () => document.querySelectorAll("[data-chart]").forEach(draw);
  all();
  document.addEventListener("htmx:after:swap", all);
  addEventListener("resize", () => drawn.forEach(({ chart, plot }) => chart.setSize({ width: plot.clientWidth, height: HEIGHT })));
  document.getElementById("theme")?.addEventListener("click", () => {
    drawn.forEach(({ chart }) => chart.destroy());
    drawn.clear();
    all();
  });
})();
