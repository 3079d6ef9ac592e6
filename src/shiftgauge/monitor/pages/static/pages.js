// The chart of a model over time, read by pointer, finger and arrow keys; times in the reader's own zone.
// Pages work without it: every number stands in a table.
"use strict";

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DAY = 86400;
// Room for the names of values on the left, and for the names of limits on the right.
const LEFT = 52, RIGHT = 118, RIGHT_NARROW = 26, NARROW = 600;
const PLOT_HEIGHT = 300, STRIP = 14, GAP = 12, ROWS = 44;
// Heights of cells, so that they can be read without their colour.
const CELLS = {
  none: [0.25, "--teal"], label: [0.6, "--caution"], other: [1, "--purple"],
  ok: [0.25, "--teal"], caution: [0.6, "--caution"], stop: [1, "--stop"],
};
const VERSION_COLOURS = ["--blue", "--purple", "--teal", "--grey"];
// With less room than this for a slot, in pixels, dots only thicken the line; with half of it, intervals hide it.
const CROWDED = 9;

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const fade = (hex, alpha) => hex + Math.round(255 * alpha).toString(16).padStart(2, "0");
const percent = (value) => `${+(100 * value).toFixed(1)}%`;

// Ticks in UTC, as the windows are.
function tickText(seconds, step) {
  const at = new Date(1000 * seconds);
  const month = MONTHS[at.getUTCMonth()];
  if (step >= 360 * DAY) return `${at.getUTCFullYear()}`;
  if (step >= 28 * DAY) return `${month} ${at.getUTCFullYear()}`;
  if (step >= DAY || at.getUTCHours() + at.getUTCMinutes() === 0) return `${at.getUTCDate()} ${month}`;
  return at.toISOString().slice(11, 16);
}

// uPlot's arrays. A line begins at the start of its first window, passes through the middles, and ends at the end of its
// last one; before a hole it is cut.
function toColumns(data) {
  const rows = new Map();
  const put = (x, v, values) => {
    if (!rows.has(x)) rows.set(x, data.versions.map(() => ({})));
    Object.assign(rows.get(x)[v], values);
  };
  data.versions.forEach((version, v) => {
    const places = data.slots.map((_, place) => place).filter((place) => version.value[place] !== false);
    places.forEach((place, i) => {
      const slot = data.slots[place], cut = version.breaks.includes(place);
      const values = Object.fromEntries(KEYS.map((key) => [key, version[key][place]]));
      const line = { ...values, observed: undefined, observed_low: undefined, observed_high: undefined };
      if (cut) put(slot.start - 0.001, v, Object.fromEntries(KEYS.map((key) => [key, null])));
      if (cut || i === 0) put(slot.start, v, line);
      put((slot.start + slot.end) / 2, v, values);
      if (i === places.length - 1 || version.breaks.includes(places[i + 1])) put(slot.end, v, line);
    });
  });
  const x = [...rows.keys()].sort((a, b) => a - b);
  const columns = data.versions.map((_, v) => Object.fromEntries(KEYS.map((key) => [key, x.map((at) => rows.get(at)[v][key])])));
  return { x, columns };
}

const KEYS = ["value", "low", "high", "adaptive_low", "adaptive_high", "observed", "observed_low", "observed_high"];

const versionColour = (number) => colour(VERSION_COLOURS[Math.min(number, VERSION_COLOURS.length - 1)]);

function dot(ctx, x, y, radius, ink, edge) {
  ctx.fillStyle = ink;
  ctx.beginPath();
  ctx.arc(x, y, radius, 0, 7);
  ctx.fill();
  if (!edge) return;
  ctx.strokeStyle = edge;
  ctx.stroke();
}

function seriesOf(versions) {
  const series = [{}], bands = [];
  versions.forEach((version, number) => {
    const ink = versionColour(number);
    const first = series.length;
    const hidden = { stroke: "transparent", width: 0, points: { show: false } };
    const dashed = { stroke: fade(ink, 0.6), width: 1, dash: [3, 3], points: { show: false } };
    series.push(
      { stroke: ink, width: 2, points: { show: false } },
      hidden, hidden, dashed, dashed,
      { stroke: colour("--orange"), width: 0, paths: () => null, points: { show: false } }, hidden, hidden,
    );
    bands.push({ series: [first + 2, first + 1], fill: fade(ink, 0.28) });
    bands.push({ series: [first + 4, first + 3], fill: fade(ink, 0.08) });
  });
  return { series, bands };
}

// Dots at the windows, and observed values with their intervals.
function drawDots(plot, data) {
  const ctx = plot.ctx, ratio = devicePixelRatio, room = plot.bbox.width / ratio / data.slots.length;
  const radius = Math.min(3.2, Math.max(1.5, 0.3 * room)) * ratio, height = (value) => plot.valToPos(value, "y", true);
  ctx.save();
  data.versions.forEach((version, number) => data.slots.forEach((slot, place) => {
    const x = plot.valToPos((slot.start + slot.end) / 2, "x", true);
    const [value, observed, low, high] = ["value", "observed", "observed_low", "observed_high"].map((key) => version[key][place]);
    if (typeof value === "number" && room >= CROWDED) dot(ctx, x, height(value), 2.4 * ratio, versionColour(number));
    if (typeof observed !== "number") return;
    if (typeof low === "number" && room >= CROWDED / 2) {
      ctx.strokeStyle = fade(colour("--orange"), 0.6);
      ctx.lineWidth = 1.5 * ratio;
      ctx.beginPath();
      ctx.moveTo(x, height(low));
      ctx.lineTo(x, height(high));
      ctx.stroke();
    }
    ctx.lineWidth = ratio;
    dot(ctx, x, height(observed), radius, colour("--orange"), colour("--paper"));
  }));
  ctx.restore();
}

// Lines across with their names in the margin, moved apart where they would lie on one another.
function drawLevels(plot, levels, named) {
  const ctx = plot.ctx, ratio = devicePixelRatio, { left, top, width, height } = plot.bbox;
  const shown = levels.map((level) => ({ ...level, y: plot.valToPos(level.value, "y", true) }))
    .filter((level) => level.y >= top && level.y <= top + height).sort((a, b) => a.y - b.y);
  let free = top;
  ctx.save();
  for (const level of shown) {
    ctx.strokeStyle = ctx.fillStyle = colour(level.look === "limit" ? "--stop" : "--dim");
    ctx.lineWidth = (level.look === "limit" ? 1.5 : 1) * ratio;
    ctx.setLineDash((level.look === "limit" ? [7, 4] : [2, 3]).map((length) => length * ratio));
    ctx.beginPath();
    ctx.moveTo(left, level.y);
    ctx.lineTo(left + width, level.y);
    if (named) {
      const y = Math.max(level.y, free);
      free = y + 15 * ratio;
      ctx.lineTo(left + width + 6 * ratio, y);
      ctx.font = `${level.look === "limit" ? "600 " : ""}${12 * ratio}px system-ui, sans-serif`;
      ctx.textAlign = "left";
      ctx.textBaseline = "middle";
      ctx.fillText(`${level.text} ${(100 * level.value).toFixed(1)}%`, left + width + 9 * ratio, y);
    }
    ctx.stroke();
  }
  ctx.restore();
}

// Where a further version begins.
function drawVersions(plot, data) {
  const ctx = plot.ctx, ratio = devicePixelRatio, { top, left, width, height } = plot.bbox;
  const begins = data.versions.map((version) => [data.slots[version.value.findIndex((v) => v !== false)].start, version.name]);
  begins.sort((a, b) => a[0] - b[0]);
  ctx.save();
  ctx.font = `600 ${12 * ratio}px system-ui, sans-serif`;
  ctx.fillStyle = colour("--ink");
  ctx.strokeStyle = colour("--dim");
  for (const [start, name] of begins.slice(1)) {
    const x = plot.valToPos(start, "x", true), last = x > left + 0.8 * width;
    ctx.beginPath();
    ctx.moveTo(x, top - 14 * ratio);
    ctx.lineTo(x, top + height);
    ctx.stroke();
    ctx.textAlign = last ? "right" : "left";
    ctx.fillText(name, x + (last ? -4 : 4) * ratio, top - 6 * ratio);
  }
  ctx.restore();
}

// Beneath: the kind of shift, the doctor's verdict, alerts, and rows.
function drawStrips(plot, data) {
  const ctx = plot.ctx, ratio = devicePixelRatio, { left, top } = plot.bbox;
  const most = Math.max(1, ...data.slots.map((slot) => slot.rows));
  let y = top;
  const cell = (from, to, tall, height, ink) => {
    const a = plot.valToPos(from, "x", true), b = plot.valToPos(to, "x", true), gap = 0.12 * (b - a);
    ctx.fillStyle = ink;
    ctx.fillRect(a + gap / 2, y + (height - tall) * ratio, Math.max(b - a - gap, ratio), tall * ratio);
  };
  const strip = (name, height, draw) => {
    ctx.fillStyle = colour("--dim");
    ctx.textAlign = "right";
    ctx.textBaseline = "middle";
    ctx.font = `${12 * ratio}px system-ui, sans-serif`;
    ctx.fillText(name, left - 8 * ratio, y + (height / 2) * ratio);
    draw(height);
    y += (height + GAP) * ratio;
  };
  ctx.save();
  for (const name of ["shift", "doctor"]) {
    strip(name, STRIP, () => data.slots.forEach((slot) => {
      const [share, ink] = CELLS[slot[name]] || [0.1, "--grey"];
      cell(slot.start, slot.end, share * STRIP, STRIP, colour(ink));
    }));
  }
  strip("alerts", STRIP, () => data.alerts.forEach(([from, to]) => cell(from, to, STRIP, STRIP, colour("--stop"))));
  strip("rows", ROWS, () => data.slots.forEach((slot) => {
    const ink = slot.known ? colour("--grey") : fade(colour("--grey"), 0.4);
    cell(slot.start, slot.end, Math.max(1, (ROWS * slot.rows) / most), ROWS, ink);
  }));
  ctx.restore();
}

function drawChart(figure) {
  const box = figure.querySelector("[data-chart]");
  const readout = figure.querySelector("[data-readout]");
  const data = JSON.parse(figure.dataset.overTime);
  figure.hidden = false;
  const { x, columns } = toColumns(data);
  let now, link, plots = [], touched = false;

  // The readout says what the rows of the table say: one for each version.
  function show(place, move = true) {
    now = Math.min(Math.max(place, 0), data.slots.length - 1);
    const slot = data.slots[now], rows = [...document.querySelectorAll(`tr[data-slot="${slot.slot}"]`)];
    const title = document.createElement("p"), name = document.createElement("strong");
    link = rows[0].querySelector("a").cloneNode();
    link.textContent = "open";
    name.textContent = rows[0].querySelector("th").textContent;
    title.append(name, " ", link);
    readout.replaceChildren(title, ...rows.map(factList));
    if (move) plots.forEach((plot) => plot.setCursor({ left: plot.valToPos((slot.start + slot.end) / 2, "x"), top: 10 }, false));
  }

  // A range that is dragged over stands in the address: it can be shared, and the tables follow it.
  function zoom(plot) {
    if (plot.select.width < 8) return;
    const [from, to] = [plot.select.left, plot.select.left + plot.select.width].map((at) => plot.posToVal(at, "x"));
    const chosen = data.slots.filter((slot) => slot.end > from && slot.start < to);
    if (!chosen.length) return;
    const asked = new URLSearchParams(location.search);
    asked.delete("range");
    asked.set("from", chosen[0].from);
    asked.set("to", chosen[chosen.length - 1].to);
    location.search = asked;
  }

  function options(width, height, more) {
    const wide = box.clientWidth >= NARROW;
    const axis = { stroke: colour("--dim"), font: "12px system-ui, sans-serif", ticks: { show: false } };
    const grid = { stroke: fade(colour("--line"), 0.6), width: 1 };
    return {
      width, height,
      padding: [16, wide ? RIGHT : RIGHT_NARROW, 0, 0],
      legend: { show: false },
      tzDate: (seconds) => uPlot.tzDate(new Date(1000 * seconds), "Etc/UTC"),
      cursor: { y: false, drag: { setScale: false }, points: { show: false }, sync: { key: "time", setSeries: false } },
      ...more,
      scales: { x: { range: () => [data.from, data.to] }, y: more.y },
      axes: [
        { ...axis, grid, size: 30, values: (_, splits, __, ___, step) => splits.map((at) => tickText(at, step)), ...more.xAxis },
        { ...axis, grid, size: LEFT, gap: 6, ...more.yAxis },
      ],
      hooks: {
        ...more.hooks,
        setSelect: [zoom],
        setCursor: [(plot) => { if (plot.cursor.left >= 0) show(nearest(plot.posToVal(plot.cursor.left, "x")), false); }],
      },
    };
  }

  const nearest = (at) => {
    const inside = data.slots.findIndex((slot) => at < slot.end);
    return inside < 0 ? data.slots.length - 1 : inside;
  };

  function draw() {
    plots.forEach((plot) => plot.destroy());
    const width = box.clientWidth, { series, bands } = seriesOf(data.versions);
    const values = columns.flatMap((column) => KEYS.map((key) => column[key]));
    const known = values.flat().filter((value) => typeof value === "number");
    const near = data.levels.map((level) => level.value).filter((value) => value <= 2 * Math.max(...known, 0.05));
    const ends = [Math.min(...known, ...near), Math.max(...known, ...near)];
    const margin = 0.06 * Math.max(ends[1] - ends[0], 0.02);
    const floor = data.metric === "error" ? 0 : Math.max(0, ends[0] - margin);
    const top = new uPlot(options(width, PLOT_HEIGHT, {
      series, bands,
      y: { range: () => [floor, Math.min(1.02, ends[1] + margin)] },
      yAxis: { values: (_, splits) => splits.map(percent) },
      hooks: { draw: [(plot) => {
        drawLevels(plot, data.levels, width >= NARROW);
        drawDots(plot, data);
        drawVersions(plot, data);
      }] },
    }), [x, ...values], box);
    const height = 3 * (STRIP + GAP) + ROWS + 12;
    const beneath = new uPlot(options(width, height, {
      series: [{}, { show: false }],
      y: { range: () => [0, 1] },
      padding: [4, width >= NARROW ? RIGHT : RIGHT_NARROW, 0, 0],
      xAxis: { show: false },
      yAxis: { values: () => [], grid: { show: false } },
      hooks: { draw: [(plot) => drawStrips(plot, data)] },
    }), [x, x.map(() => null)], box);
    plots = [top, beneath];
    plots.forEach((plot) => plot.over.addEventListener("click", () => {
      if (!touched && plot.select.width < 8) location.href = link.href;
    }));
  }

  // A finger first reads; "open" in the readout then leads on.
  box.addEventListener("pointerdown", (event) => { touched = event.pointerType !== "mouse"; }, true);
  box.tabIndex = 0;
  box.setAttribute("role", "group");
  box.addEventListener("keydown", (event) => {
    const steps = { ArrowLeft: now - 1, ArrowRight: now + 1, PageUp: now - 10, PageDown: now + 10, Home: 0, End: data.slots.length - 1 };
    if (event.key in steps && !event.ctrlKey && !event.altKey && !event.metaKey) {
      event.preventDefault();
      show(steps[event.key]);
    } else if (event.key === "Enter") {
      location.href = link.href;
    }
  });
  show(data.slots.length - 1, false);
  draw();
  let width = box.clientWidth;
  new ResizeObserver(() => {
    if (box.clientWidth !== width) draw();
    width = box.clientWidth;
  }).observe(box);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  document.querySelectorAll("details[data-numbers]").forEach((part) => { part.open = false; });
}

function factList(row) {
  const list = document.createElement("dl");
  for (const cell of row.querySelectorAll("td[data-label]")) {
    if (cell.textContent === "–") continue;
    const group = document.createElement("div"), term = document.createElement("dt"), value = document.createElement("dd");
    term.textContent = cell.dataset.label;
    value.textContent = cell.textContent;
    group.append(term, value);
    list.append(group);
  }
  return list;
}

function localTimes() {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const hint = document.querySelector("[data-zone]");
  if (!zone || !hint || zone === "UTC") return;
  hint.querySelector("span").textContent = zone;
  hint.hidden = false;
  const style = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
  document.querySelectorAll("time[datetime]").forEach((time) => {
    time.title = `${style.format(new Date(time.dateTime))} (${zone})`;
  });
}

document.querySelectorAll("figure[data-over-time]").forEach(drawChart);
// A choice that is made is shown at once; without a script a button does it.
document.querySelectorAll("select[data-submit]").forEach((select) => {
  select.addEventListener("change", () => select.form.requestSubmit());
});
localTimes();
