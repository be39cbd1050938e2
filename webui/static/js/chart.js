// Lines over time, in SVG: a chart with axes and a reading under the pointer, and the bare line of a tile.

import { h, replace, setText, svg } from "./dom.js";
import { clock } from "./units.js";

const HEIGHT = 190;
const PAD = { left: 62, right: 10, top: 10, bottom: 22 };

/** 1, 2 or 5 times a power of the base, so that the axis reads well; about `count` of them. */
export function ticks(highest, count = 4) {
  if (!(highest > 0)) return [0, 1];
  const rough = highest / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= rough) * power;
  return Array.from({ length: Math.ceil(highest / step) + 1 }, (_, index) => index * step);
}

export class LineChart {
  /** `series`: [{key, label, tone}]; `format(value)` for axis and reading. */
  constructor(container, { series, format, label }) {
    this.container = container;
    this.series = series;
    this.format = format;
    this.label = label;
    this.seconds = 300;
    this.data = null;
    this.reading = h("div.reading", { hidden: true });
    this.drawing = svg("svg", { role: "img", "aria-label": label, height: HEIGHT });
    replace(container, this.drawing, this.reading);
    new ResizeObserver(() => this.draw()).observe(container);
    this.drawing.addEventListener("pointermove", (event) => this.read(event));
    this.drawing.addEventListener("pointerleave", () => this.unread());
  }

  /** `data`: columns of equal length, `at_ms` among them, oldest first. */
  show(data, seconds) {
    this.data = data;
    this.seconds = seconds;
    this.draw();
  }

  draw() {
    const width = this.container.clientWidth;
    if (!this.data || width === 0) return;
    const end = this.data.at_ms.at(-1) ?? Date.now();
    this.start = end - this.seconds * 1000;
    const first = Math.max(0, this.data.at_ms.findIndex((at) => at >= this.start) - 1);
    const highest = Math.max(...this.series.flatMap(({ key }) => this.data[key].slice(first)), 0);
    const marks = ticks(highest || 1);
    this.scale = {
      x: (at) => PAD.left + ((at - this.start) / (this.seconds * 1000)) * (width - PAD.left - PAD.right),
      y: (value) => HEIGHT - PAD.bottom - (value / marks.at(-1)) * (HEIGHT - PAD.top - PAD.bottom),
    };
    this.drawing.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    this.drawing.setAttribute("width", width);
    this.cursor = svg("g", { visibility: "hidden" });
    replace(this.drawing, this.grid(marks, highest, width), this.times(), this.lines(first), this.cursor);
  }

  grid(marks, highest, width) {
    return marks.map((value) => {
      const y = Math.round(this.scale.y(value)) + 0.5;
      const text = value === 0 || highest > 0 ? this.format(value) : "";
      return [
        svg("line.grid", { x1: PAD.left, x2: width - PAD.right, y1: y, y2: y }),
        svg("text.axis", { x: PAD.left - 8, y: y + 4, "text-anchor": "end" }, text),
      ];
    });
  }

  times() {
    const minutes = this.seconds / 60;
    const step = minutes <= 1 ? 0.25 : minutes <= 60 ? minutes / 5 : minutes / 6;
    const marks = [];
    for (let back = 0; back <= minutes; back += step) {
      const x = this.scale.x(this.start + (minutes - back) * 60_000);
      const anchor = back === 0 ? "end" : back >= minutes ? "start" : "middle";
      const words = back === 0 ? "now" : back < 1 ? `${back * 60} s` : minutes > 60 ? `${back / 60} h` : `${back} min`;
      marks.push(svg("text.axis", { x, y: HEIGHT - 5, "text-anchor": anchor }, words));
    }
    return marks;
  }

  lines(first) {
    const clipped = svg("clipPath", { id: "plot" }, svg("rect", { x: PAD.left, y: 0, width: "100%", height: HEIGHT }));
    const floor = this.scale.y(0);
    const drawn = this.series.map(({ key, tone }) => {
      const points = this.points(key, first);
      if (points.length < 2) return [];
      const line = `M${points.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L")}`;
      const area = `${line}L${points.at(-1)[0].toFixed(1)} ${floor}L${points[0][0].toFixed(1)} ${floor}Z`;
      return [svg(`path.area.${tone}`, { d: area }), svg(`path.line.${tone}`, { d: line })];
    });
    return [svg("defs", clipped), svg("g", { "clip-path": "url(#plot)" }, drawn)];
  }

  points(key, first) {
    return this.data[key].slice(first).map((value, index) => [this.scale.x(this.data.at_ms[first + index]), this.scale.y(value)]);
  }

  read(event) {
    if (!this.data?.at_ms.length) return;
    const box = this.drawing.getBoundingClientRect();
    const nearest = this.nearest(event.clientX - box.left);
    const at = this.data.at_ms[nearest];
    const x = this.scale.x(at);
    if (x < PAD.left) return this.unread();
    const dots = this.series.map(({ key, tone }) => svg(`circle.dot.${tone}`, { cx: x, cy: this.scale.y(this.data[key][nearest]), r: 3.5 }));
    replace(this.cursor, svg("line.cursor", { x1: x, x2: x, y1: PAD.top, y2: HEIGHT - PAD.bottom }), dots);
    this.cursor.setAttribute("visibility", "visible");
    const rows = this.series.map(({ key, label, tone }) => h("p", h(`i.${tone}`), label, h("b", this.format(this.data[key][nearest]))));
    replace(this.reading, h("p.quiet", clock(at)), rows);
    this.reading.hidden = false;
    const left = x + 14 + this.reading.offsetWidth > box.width ? x - 14 - this.reading.offsetWidth : x + 14;
    this.reading.style.transform = `translate(${left}px, ${PAD.top}px)`;
  }

  nearest(x) {
    let best = 0;
    this.data.at_ms.forEach((at, index) => {
      if (Math.abs(this.scale.x(at) - x) < Math.abs(this.scale.x(this.data.at_ms[best]) - x)) best = index;
    });
    return best;
  }

  unread() {
    this.reading.hidden = true;
    this.cursor?.setAttribute("visibility", "hidden");
  }
}

/** A tile's line: shape only, the figure stands beside it. */
export class Sparkline {
  constructor(tone) {
    this.area = svg(`path.area.${tone}`);
    this.line = svg(`path.line.${tone}`, { "vector-effect": "non-scaling-stroke" });
    this.title = svg("title");
    this.element = svg("svg.spark", { viewBox: "0 0 100 28", preserveAspectRatio: "none", role: "img" }, this.title, this.area, this.line);
  }

  show(values, title) {
    setText(this.title, title);
    const highest = Math.max(...values, 0) || 1;
    const step = 100 / Math.max(values.length - 1, 1);
    const points = values.map((value, index) => `${(index * step).toFixed(2)} ${(26 - (value / highest) * 23).toFixed(2)}`);
    const flat = values.every((value) => value === 0);
    const line = points.length > 1 && !flat ? `M${points.join("L")}` : "";
    this.line.setAttribute("d", line);
    this.area.setAttribute("d", line && `${line}L100 28L0 28Z`);
  }
}
