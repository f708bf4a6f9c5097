// Charts as inline SVG. Each returns an element; numbers in, no state.
"use strict";

const SVG = "http://www.w3.org/2000/svg";

function shape(name, attributes, ...children) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

// As wide as its card, so that text keeps its size.
const chartWidth = () => (window.innerWidth < 500 ? 290 : 440);

// What a screen reader says of it is `label`.
function picture(width, height, label, ...children) {
  return shape("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }, ...children);
}

// A line over time, the newest value on the right; `slots` is how many there will be.
function lineChart(values, slots, label) {
  const width = 200, height = 44;
  const top = Math.max(...values, 0) || 1;
  const x = (i) => width - ((values.length - 1 - i) * width) / Math.max(slots - 1, 1);
  const y = (value) => height - 2 - (value / top) * (height - 6);
  const points = values.map((value, i) => `${x(i).toFixed(1)},${y(value).toFixed(1)}`);
  const chart = picture(width, height, label, shape("line", { class: "axis", x1: 0, x2: width, y1: height - 1, y2: height - 1 }));
  if (points.length > 1) {
    chart.append(
      shape("polygon", { class: "area", points: `${x(0).toFixed(1)},${height} ${points.join(" ")} ${width},${height}` }),
      shape("polyline", { class: "curve", points: points.join(" ") }));
  }
  return chart;
}

// Bars side by side. bars: {name, value, title}.
function columnChart(bars, label) {
  const width = chartWidth(), height = 130, foot = 18;
  const top = Math.max(...bars.map((bar) => bar.value), 0) || 1;
  const step = width / Math.max(bars.length, 1);
  const chart = picture(width, height, label, shape("line", { class: "axis", x1: 0, x2: width, y1: height - foot, y2: height - foot }));
  bars.forEach((bar, i) => {
    const size = (bar.value / top) * (height - foot - 6);
    chart.append(
      shape("rect", { class: "bar", x: i * step + step * 0.12, width: step * 0.76, y: height - foot - size, height: size, rx: 2 },
        shape("title", {}, bar.title)));
    // Where there is room: a name is some 26 wide.
    if (i % Math.ceil(26 / step) === 0) {
      chart.append(shape("text", { x: (i + 0.5) * step, y: height - 5, "text-anchor": "middle" }, bar.name));
    }
  });
  return chart;
}

// Bars below each other. bars: {name, value, text}.
function barChart(bars, label) {
  const width = chartWidth(), row = 22, left = 70, right = 50;
  const top = Math.max(...bars.map((bar) => bar.value), 0) || 1;
  const chart = picture(width, bars.length * row, label);
  bars.forEach((bar, i) => {
    const room = width - left - right;
    chart.append(
      shape("text", { x: 0, y: i * row + 15 }, bar.name),
      shape("rect", { class: "track", x: left, y: i * row + 5, width: room, height: 12, rx: 3 }),
      shape("rect", { class: "bar", x: left, y: i * row + 5, width: (bar.value / top) * room, height: 12, rx: 3 }),
      shape("text", { x: width, y: i * row + 15, "text-anchor": "end" }, bar.text));
  });
  return chart;
}

// From p50 to p99 of each row, on one logarithmic axis in decades of seconds. rows: {name, p50_s, p95_s, p99_s}, null: nothing.
function rangeChart(rows, format, label) {
  const width = chartWidth(), row = 24, left = 70, right = 14, foot = 20;
  const all = rows.flatMap((one) => [one.p50_s, one.p99_s]).filter((value) => value > 0);
  const low = all.length ? Math.floor(Math.log10(Math.min(...all))) : -6;
  const high = all.length ? Math.max(Math.ceil(Math.log10(Math.max(...all))), low + 1) : 0;
  const bottom = rows.length * row;
  const decadeWidth = (width - left - right) / (high - low);
  const x = (value) => left + (Math.log10(Math.max(value, 10 ** low)) - low) * decadeWidth;
  const chart = picture(width, bottom + foot, label);
  for (let decade = low; decade <= high; decade++) {
    const at = x(10 ** decade);
    chart.append(shape("line", { class: "axis", x1: at, x2: at, y1: 0, y2: bottom }));
    // Where there is room: a label is some 44 wide.
    if ((decade - low) % Math.ceil(44 / decadeWidth) === 0) {
      chart.append(shape("text", { x: at, y: bottom + 14, "text-anchor": decade === high ? "end" : "middle" }, format(10 ** decade)));
    }
  }
  rows.forEach((one, i) => {
    const y = i * row + row / 2;
    chart.append(shape("text", { x: 0, y: y + 4 }, one.name));
    if (one.p50_s === null) return;
    chart.append(shape("line", { class: "range", x1: x(one.p50_s), x2: x(one.p99_s), y1: y, y2: y }));
    for (const name of ["p99", "p95", "p50"]) {
      const value = one[`${name}_s`];
      chart.append(shape("circle", { class: name, cx: x(value), cy: y, r: 4.5 }, shape("title", {}, `${name} ${format(value)}`)));
    }
  });
  return chart;
}

// A share of 1, inside a line of text.
function meter(share, label) {
  return picture(90, 12, label,
    shape("rect", { class: "track", x: 0, y: 1, width: 90, height: 10, rx: 3 }),
    shape("rect", { class: "bar", x: 0, y: 1, width: 90 * share, height: 10, rx: 3 }));
}
