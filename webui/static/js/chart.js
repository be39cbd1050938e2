// Line charts in SVG: axes, a readout at the pointer or under the arrow keys, marks, and gaps for missing samples. The
// charts of a page have one cursor: the moment that one of them reads is shown in all that have it on their axis.

import { h, replace, setText, svg } from "./dom.js";
import { clock, day, utcClock, utcDay } from "./units.js";

const PAD = { left: 62, right: 10, top: 10, bottom: 22 };
// Samples arrive at an even step; more than this many missing samples in a row make a gap.
const MISSING_STEPS = 2.5;
const ROOM_FOR_TIME = 62;
// A line shows means of a sixtieth of the chart, of five seconds at least; the reading has the values themselves.
const SMOOTHED_PARTS = 60;
const SMOOTHED_MS = 5000;
// Minutes between two times below a chart, which has about six.
const TIME_STEPS = [0.25, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 240, 480, 1440];
const MOST_TIMES = 6;
const DAY_MS = 86_400_000;
// Marks that are closer than this are one, in pixels.
const MARKS_APART = 5;
const MARKS_READ = 3;

let charts = 0;
const drawn = new Set();

/** A tick step of 1, 2 or 5 times a power of ten, at least `least`, for about `count` ticks. */
export function ticks(highest, count = 4, least = 0) {
  if (!(highest > 0)) return [0, 1];
  const rough = highest / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = Math.max(least, [1, 2, 5, 10].find((factor) => factor * power >= rough) * power);
  return Array.from({ length: Math.ceil(highest / step) + 1 }, (_, index) => index * step);
}

/** The median time between two samples, so that gaps do not count. */
export function stepOf(times) {
  const steps = times.slice(1).map((at, index) => at - times[index]).sort((one, other) => one - other);
  return steps[Math.floor(steps.length / 2)] ?? 1000;
}

/** [[x, y], …] for each stretch without a gap (a missing value, or missing samples). */
export function stretches(times, values, first, step) {
  const found = [[]];
  for (let index = first; index < times.length; index += 1) {
    if (index > first && times[index] - times[index - 1] > MISSING_STEPS * step) found.push([]);
    if (values[index] === null) found.push([]);
    else found.at(-1).push([times[index], values[index]]);
  }
  return found.filter((points) => points.length);
}

/** The means of the points within `span_ms` around each point of a stretch. */
export function smoothed(points, span_ms) {
  let [from, to, sum] = [0, 0, 0];
  return points.map(([at]) => {
    while (to < points.length && points[to][0] <= at + span_ms / 2) sum += points[to++][1];
    while (points[from][0] < at - span_ms / 2) sum -= points[from++][1];
    return [at, sum / (to - from)];
  });
}

function timeOfDay(at, hasSeconds) {
  return new Date(at).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", second: hasSeconds ? "2-digit" : undefined });
}

export class LineChart {
  /**
   * `series`: [{key, label, tone}]; `format(value)` for axis and reading. `top`: the fixed end of the axis, whatever
   * the values; `levels`: [{value, level}], lines across; `height` in pixels.
   */
  constructor(container, { series, format, label, top = null, levels = [], whole = false, height = 190 }) {
    Object.assign(this, { container, series, format, label, top, levels, whole, height });
    this.seconds = 300;
    this.until = null;
    this.data = null;
    this.at = null;
    // The moment that another chart reads.
    this.followed = null;
    this.marks = [];
    this.plot = `plot-${(charts += 1)}`;
    this.reading = h("div.reading", { hidden: true });
    this.drawing = svg("svg", { role: "slider", tabindex: "0", "aria-label": `${label}, over time`, height });
    replace(container, this.drawing, this.reading);
    this.describe();
    new ResizeObserver(() => this.draw()).observe(container);
    this.drawing.addEventListener("pointermove", (event) => this.hover(event));
    this.drawing.addEventListener("pointerleave", () => this.unread());
    this.drawing.addEventListener("blur", () => this.unread());
    this.drawing.addEventListener("keydown", (event) => this.key(event));
  }

  /**
   * `data`: columns of equal length, `at_ms` among them, oldest first; null is unknown. The axis ends with the
   * newest sample, or at the time `until`, in which case it shows dates.
   */
  show(data, seconds, until = null) {
    this.data = data;
    this.seconds = until === null ? seconds : this.span(seconds, until);
    this.until = until;
    this.draw();
  }

  /** `marks`: [{at, text}], what happened when, oldest first. */
  mark(marks) {
    this.marks = marks;
    this.draw();
  }

  /** At most `seconds` back from `until`, and not before the first day with a value: a first day fills the chart. */
  span(seconds, until) {
    const { at_ms: times } = this.data;
    const first = times.find((_, index) => this.series.some(({ key }) => this.data[key][index] !== null));
    if (first === undefined) return seconds;
    const day = Math.floor(first / DAY_MS) * DAY_MS;
    return Math.min(seconds, Math.max((until - day) / 1000, 1));
  }

  draw() {
    const width = this.container.clientWidth;
    if (!this.data || width === 0) return;
    drawn.add(this);
    const times = this.data.at_ms;
    this.start = (this.until ?? times.at(-1) ?? Date.now()) - this.seconds * 1000;
    this.first = Math.max(0, times.findIndex((at) => at >= this.start) - 1);
    const highest = this.top ?? Math.max(...this.series.flatMap(({ key }) => this.data[key].slice(this.first)), 0);
    const marks = ticks(highest || 1, this.height < 180 ? 3 : 4, this.whole ? 1 : 0);
    this.scale = {
      x: (at) => PAD.left + ((at - this.start) / (this.seconds * 1000)) * (width - PAD.left - PAD.right),
      y: (value) => this.height - PAD.bottom - (value / marks.at(-1)) * (this.height - PAD.top - PAD.bottom),
    };
    this.drawing.setAttribute("viewBox", `0 0 ${width} ${this.height}`);
    this.drawing.setAttribute("width", width);
    this.cursor = svg("g", { visibility: "hidden" });
    replace(this.drawing, this.grid(marks, highest, width), this.times(width), this.events(), this.lines(), this.cursor);
    if (this.at !== null) return this.read(this.at);
    if (this.followed !== null) this.point(this.followed);
    this.describe();
  }

  grid(marks, highest, width) {
    const across = (spec, value) => {
      const y = Math.round(this.scale.y(value)) + 0.5;
      return svg(spec, { x1: PAD.left, x2: width - PAD.right, y1: y, y2: y });
    };
    const axisLabel = (value) => (value === 0 || highest > 0 ? this.format(value) : "");
    return [
      marks.map((value) => [
        across("line.grid", value),
        svg("text.axis", { x: PAD.left - 8, y: this.scale.y(value) + 4, "text-anchor": "end" }, axisLabel(value)),
      ]),
      this.levels.map(({ value, level }) => across(`line.level.${level}`, value)),
    ];
  }

  times(width) {
    if (this.until !== null) return this.dates(width);
    const minutes = this.seconds / 60;
    const room = (width - PAD.left - PAD.right) / minutes;
    const most = TIME_STEPS.find((each) => each * MOST_TIMES >= minutes) ?? TIME_STEPS.at(-1);
    const step = TIME_STEPS.find((each) => each >= most && each * room >= ROOM_FOR_TIME) ?? TIME_STEPS.at(-1);
    const every = step * 60_000;
    // Round times of the day here, not of UTC.
    const shift = new Date(this.start).getTimezoneOffset() * 60_000;
    const marks = [];
    for (let at = Math.ceil((this.start - shift) / every) * every + shift; at <= this.start + this.seconds * 1000; at += every) {
      const x = this.scale.x(at);
      if (x < PAD.left + ROOM_FOR_TIME / 3 || x > width - PAD.right - ROOM_FOR_TIME / 4) continue;
      marks.push(svg("line.tick", { x1: x, x2: x, y1: this.height - PAD.bottom, y2: this.height - PAD.bottom + 4 }),
        svg("text.axis", { x, y: this.height - 5, "text-anchor": "middle" }, timeOfDay(at, step < 1)));
    }
    return marks;
  }

  /** Labels for UTC days, or for the hours of one day. */
  dates(width) {
    const step = this.seconds <= 86400 ? 4 * 3600 : 86400;
    const room = ((width - PAD.left - PAD.right) * step) / this.seconds;
    const every = step * Math.ceil(ROOM_FOR_TIME / Math.max(room, 1));
    const marks = [];
    for (let past = 0; past < this.seconds; past += every) {
      const at = this.start + past * 1000;
      const text = step < 86400 ? utcClock(at).slice(0, 5) : utcDay(at);
      marks.push(svg("text.axis", { x: this.scale.x(at), y: this.height - 5, "text-anchor": past ? "middle" : "start" }, text));
    }
    return marks;
  }

  /** A line across for each mark, and one for marks that would touch. */
  events() {
    let last = -Infinity;
    return this.marks.map(({ at, text }) => {
      const x = Math.round(this.scale.x(at)) + 0.5;
      if (at < this.start || x - last < MARKS_APART) return null;
      last = x;
      const top = PAD.top - 2;
      return svg("g.mark", svg("title", text), svg("line", { x1: x, x2: x, y1: top, y2: this.height - PAD.bottom }), svg("path", { d: `M${x - 4} ${top - 6}h8l-4 6Z` }));
    });
  }

  /** The marks at the sample with this index: nearer to it than to any other, or drawn as one with such a mark. */
  marksAt(index) {
    const { at_ms: times } = this.data;
    const near = (MARKS_APART * this.seconds * 1000) / Math.max(this.scale.x(this.start + this.seconds * 1000) - PAD.left, 1);
    const from = Math.min(index > 0 ? (times[index - 1] + times[index]) / 2 : times[index], times[index] - near);
    const to = Math.max(index + 1 < times.length ? (times[index] + times[index + 1]) / 2 : Infinity, times[index] + near);
    return this.marks.filter(({ at }) => at >= Math.max(from, this.start) && at < to);
  }

  lines() {
    const clipped = svg("clipPath", { id: this.plot }, svg("rect", { x: PAD.left, y: 0, width: "100%", height: this.height }));
    const step = stepOf(this.data.at_ms.slice(this.first));
    const floor = this.scale.y(0);
    // Levels that are whole numbers, such as a number of connections, have no means.
    const span = this.whole || this.until !== null ? 0 : Math.max(SMOOTHED_MS, (this.seconds * 1000) / SMOOTHED_PARTS);
    this.shown = new Map();
    const drawn = this.series.map(({ key, tone }) =>
      stretches(this.data.at_ms, this.data[key], this.first, step).map((raw) => {
        const stretch = span ? smoothed(raw, span) : raw;
        for (const [at, value] of stretch) this.shown.set(`${key} ${at}`, value);
        const points = stretch.map(([at, value]) => [this.scale.x(at).toFixed(1), this.scale.y(value).toFixed(1)]);
        // A round cap on a line of length zero draws a single sample between two gaps as a dot.
        const line = `M${points.map(([x, y]) => `${x} ${y}`).join("L")}${points.length === 1 ? "h0" : ""}`;
        const area = `M${points[0][0]} ${floor}L${points.map(([x, y]) => `${x} ${y}`).join("L")}L${points.at(-1)[0]} ${floor}Z`;
        // The areas of several lines would cover each other.
        return [this.series.length === 1 && svg(`path.area.${tone}`, { d: area }), svg(`path.line.${tone}`, { d: line })];
      }));
    return [svg("defs", clipped), svg("g", { "clip-path": `url(#${this.plot})` }, drawn)];
  }

  hover(event) {
    const count = this.data?.at_ms.length ?? 0;
    if (!count) return;
    const x = event.clientX - this.drawing.getBoundingClientRect().left;
    let nearest = this.first;
    for (let index = this.first; index < count; index += 1) {
      if (Math.abs(this.x(index) - x) < Math.abs(this.x(nearest) - x)) nearest = index;
    }
    this.read(this.data.at_ms[nearest]);
  }

  x(index) {
    return this.scale.x(this.data.at_ms[index]);
  }

  key(event) {
    const times = this.data?.at_ms ?? [];
    const last = times.length - 1;
    if (last < 0) return;
    if (event.key === "Escape") return void this.unread();
    const here = this.at === null ? last : this.index(this.at);
    const page = Math.ceil((last - this.first) / 10);
    const to = { ArrowLeft: here - 1, ArrowDown: here - 1, ArrowRight: here + 1, ArrowUp: here + 1, PageUp: here - page, PageDown: here + page, Home: this.first, End: last }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    this.read(times[Math.min(last, Math.max(this.first, this.at === null && event.key === "ArrowLeft" ? last : to))]);
  }

  /** Selects the sample at a time; new samples do not move the selection. */
  index(at) {
    const found = this.data.at_ms.findIndex((each) => each >= at);
    return found < 0 ? this.data.at_ms.length - 1 : found;
  }

  read(at) {
    const index = this.index(at);
    const x = this.x(index);
    if (x < PAD.left - 1) return this.unread();
    this.at = this.data.at_ms[index];
    this.followed = null;
    this.point(this.at);
    const rows = this.series.map(({ key, label, tone }) => h("p", h(`i.${tone}`), label, h("b", this.formatValue(this.data[key][index]))));
    const marks = this.marksAt(index);
    const more = marks.length > MARKS_READ && h("p.quiet", `and ${marks.length - MARKS_READ} more`);
    replace(this.reading, h("p.quiet", `${this.moment(this.at)} · ${utcClock(this.at)} UTC`), rows, marks.slice(0, MARKS_READ).map(({ text }) => h("p.event", text)), more);
    this.reading.hidden = false;
    const { width } = this.drawing.getBoundingClientRect();
    const left = x + 14 + this.reading.offsetWidth > width ? x - 14 - this.reading.offsetWidth : x + 14;
    this.reading.style.transform = `translate(${Math.max(0, left)}px, ${PAD.top}px)`;
    this.describe(index);
    for (const other of drawn) if (other !== this) other.follow(this.at);
  }

  /** Shows the moment that another chart reads; null: none. */
  follow(at) {
    if (!this.container.isConnected) return void drawn.delete(this);
    if (this.at !== null && at !== null) this.unread(false);
    this.followed = at;
    if (at === null) this.cursor.setAttribute("visibility", "hidden");
    else this.point(at);
  }

  /** Draws the cursor at a moment, with a dot on each line that has a sample there. */
  point(at) {
    const { at_ms: times } = this.data;
    const x = this.scale.x(at);
    const isOnAxis = at >= this.start && at <= this.start + this.seconds * 1000 + 1000;
    this.cursor.setAttribute("visibility", isOnAxis ? "visible" : "hidden");
    if (!isOnAxis) return;
    let index = this.index(at);
    if (index > 0 && at - times[index - 1] < times[index] - at) index -= 1;
    const isNear = Math.abs(times[index] - at) <= stepOf(times.slice(this.first));
    const dots = !isNear ? [] : this.series.filter(({ key }) => this.data[key][index] !== null)
      .map(({ key, tone }) => svg(`circle.dot.${tone}`, { cx: this.scale.x(times[index]), cy: this.scale.y(this.shown.get(`${key} ${times[index]}`) ?? this.data[key][index]), r: 3.5 }));
    replace(this.cursor, svg("line.cursor", { x1: x, x2: x, y1: PAD.top, y2: this.height - PAD.bottom }), dots);
  }

  moment(at) {
    return this.until === null ? clock(at) : `${day(at)}, ${clock(at)}`;
  }

  formatValue(value) {
    return value === null ? "unknown" : this.format(value);
  }

  /** The text for screen readers: the selected sample, or the newest. */
  describe(index = (this.data?.at_ms.length ?? 0) - 1) {
    const values = index < 0 ? "no data yet" : this.series.map(({ key, label }) => `${label} ${this.formatValue(this.data[key][index])}`).join(", ");
    const when = index < 0 ? "" : `${this.moment(this.data.at_ms[index])}: `;
    const happened = this.at === null ? "" : this.marksAt(index).map(({ text }) => `; ${text}`).join("");
    const state = { min: this.first ?? 0, max: Math.max(this.first ?? 0, (this.data?.at_ms.length ?? 0) - 1), now: Math.max(index, 0), text: when + values + happened };
    for (const [name, value] of Object.entries(state)) this.drawing.setAttribute(`aria-value${name}`, value);
  }

  /** `isLast`: no other chart reads now. */
  unread(isLast = true) {
    const wasRead = this.at !== null;
    this.at = null;
    this.reading.hidden = true;
    this.cursor?.setAttribute("visibility", "hidden");
    this.describe();
    if (wasRead && isLast) for (const other of drawn) if (other !== this) other.follow(null);
  }
}

/** A line without axes, for a tile or a row; the value is shown beside it. */
export class Sparkline {
  constructor(tone) {
    this.area = svg(`path.area.${tone}`);
    this.line = svg(`path.line.${tone}`, { "vector-effect": "non-scaling-stroke" });
    this.title = svg("title", "No data yet");
    this.element = svg("svg.spark", { viewBox: "0 0 100 28", preserveAspectRatio: "none", role: "img" }, this.title, this.area, this.line);
  }

  /** `top`: a value that the line is drawn against, such as a limit. */
  show(values, title, top = 0) {
    setText(this.title, title);
    const highest = Math.max(...values, top, 0) || 1;
    const step = 100 / Math.max(values.length - 1, 1);
    const points = values.map((value, index) => `${(index * step).toFixed(2)} ${(26 - (value / highest) * 23).toFixed(2)}`);
    const flat = values.every((value) => value === 0);
    const line = points.length > 1 && !flat ? `M${points.join("L")}` : "";
    this.line.setAttribute("d", line);
    this.area.setAttribute("d", line && `${line}L100 28L0 28Z`);
  }
}
