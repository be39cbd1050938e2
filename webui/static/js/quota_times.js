// Temporary limits: the form for their times, the countdown in the table, and their words.

import { h, icon, setText } from "./dom.js";
import { clock, day, limitLabel, rate } from "./units.js";

const NAMES = ["from", "until", "windows", "zone"];
const SHORTCUTS = { "1 h": 1, "2 h": 2, "4 h": 4, "1 d": 24 };
const HOUR_MS = 3600_000;
const OWN_ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";

/** The permanent limits of a rule, {key: {value}}. */
export function permanentOf({ limits, temporary = {} }) {
  const below = Object.entries(temporary).map(([key, { permanent }]) => [key, permanent === null ? undefined : { value: permanent }]);
  return Object.fromEntries(Object.entries({ ...limits, ...Object.fromEntries(below) }).filter(([, limit]) => limit));
}

/** A temporary limit of a rule as an operation that sets it. */
export function opOf(key, limit) {
  return { key, value: limit.value, ...timesOf(limit) };
}

function timesOf(limit) {
  return Object.fromEntries(NAMES.filter((name) => name in limit).map((name) => [name, limit[name]]));
}

/** The times in words: "until 18:00", "Mon-Fri 09:00-17:00 Europe/Berlin". */
export function timesText({ from, until, windows, zone }) {
  return [windows && `${windows.join(", ")} ${zone}`, from && `from ${momentText(from)}`, until && `until ${momentText(until)}`].filter(Boolean).join(" ");
}

function momentText(iso) {
  const at = new Date(iso);
  const time = at.toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit", ...(at.getSeconds() && { second: "2-digit" }) });
  return at.toDateString() === new Date().toDateString() ? time : `${day(iso)}, ${time}`;
}

/** A temporary limit in the metadata, as the audit trail has it. */
export function storedText(key, text) {
  const limit = JSON.parse(text);
  return `${rate(key, limit.value)} ${timesText(limit)}`;
}

/** The text of an import's change; null if there is none. */
export function changeText(key, limit) {
  return limit && `${rate(key, limit.value)} ${timesText(limit)}`;
}

/** What tells whether a countdown must be drawn anew: not the passing of a second. */
export function countdownKey(key, limit) {
  return `${key} ${limit.value} ${limit.permanent} ${limit.active} ${limit.changes_at} ${timesText(limit)}`;
}

/** A temporary limit, and the time until it ends or begins in a slot of fixed width. */
export function countdown(key, limit) {
  const other = limit.permanent === null ? "no limit" : rate(key, limit.permanent);
  const what = `${limitLabel(key)} ${rate(key, limit.value)}`;
  const title = `${limitLabel(key)} ${rate(key, limit.value)} ${timesText(limit)}; otherwise ${other}. Set by ${limit.changed_by}, ${day(limit.changed_at)}, ${clock(Date.parse(limit.changed_at))}`;
  const element = h("span.countdown", { title, data: { active: limit.active ? "yes" : "no" } },
    icon("clock"), h("span.what", what), h("span.quiet", limit.active ? "ends in" : "begins in"), h("span.left"));
  if (limit.seconds_left !== null) element.dataset.due = String(Date.now() + limit.seconds_left * 1000);
  tick(element);
  return element;
}

/** The countdown that ends first of several temporary limits, [[key, limit]], and how many there are. */
export function countdowns(temporary) {
  const left = ([, limit]) => limit.seconds_left ?? Infinity;
  const [first, ...others] = [...temporary].sort((one, other) => left(one) - left(other));
  if (!first) return null;
  const element = countdown(...first);
  if (others.length) {
    element.title += `\n${others.map((each) => countdown(...each).title).join("\n")}`;
    element.querySelector(".what").append(`, ${others.length} more`);
  }
  return element;
}

function tick(element) {
  const { due } = element.dataset;
  setText(element.lastChild, due === undefined ? "?" : leftText(Math.max(0, Math.ceil((Number(due) - Date.now()) / 1000))));
}

/** 59:59, 23:59:59, 3 d 4 h. */
export function leftText(seconds) {
  const two = (value) => String(value).padStart(2, "0");
  const hours = Math.floor(seconds / 3600);
  const minutes = Math.floor(seconds / 60) % 60;
  if (hours >= 24) return `${Math.floor(hours / 24)} d ${hours % 24} h`;
  return hours ? `${hours}:${two(minutes)}:${two(seconds % 60)}` : `${minutes}:${two(seconds % 60)}`;
}

setInterval(() => document.querySelectorAll(".countdown").forEach(tick), 1000);

/** The times of temporary limits: once, or every week. */
export class Times {
  /** `limit`: the one whose times are filled in, if any. */
  constructor(limit, onchange) {
    this.known = limit ? timesOf(limit) : null;
    const input = (id, more) => h("input", { id, autocomplete: "off", ...more });
    this.kind = h("select", { id: "times-kind", oninput: () => this.show() }, h("option", { value: "once" }, "once"), h("option", { value: "weekly" }, "every week"));
    this.from = input("times-from", { type: "datetime-local" });
    this.until = input("times-until", { type: "datetime-local" });
    this.windows = input("times-windows", { type: "text", placeholder: "Mon-Fri 09:00-17:00", "aria-describedby": "times-windows-note" });
    this.zone = input("times-zone", { type: "text", list: "times-zones" });
    this.zones = h("datalist", { id: "times-zones" }, (Intl.supportedValuesOf?.("timeZone") ?? [OWN_ZONE]).map((name) => h("option", { value: name })));
    const shortcut = ([text, hours]) => h("button.small", { type: "button", "aria-label": `Until ${text} from now`, onclick: () => this.fill(hours, onchange) }, text);
    this.weekly = h("div.times-weekly", labelled("Windows", this.windows, h("span.note", { id: "times-windows-note" }, "Several: separated by semicolons")), labelled("Time zone", this.zone), this.zones);
    this.element = h("div.times",
      labelled("When", this.kind),
      this.weekly,
      labelled(["From ", h("span.quiet", "(empty: now)")], this.from),
      labelled(this.untilText = h("span", "Until"), this.until, h("span.shortcuts", Object.entries(SHORTCUTS).map(shortcut))));
    this.kind.value = this.known?.windows ? "weekly" : "once";
    this.from.value = localText(this.known?.from);
    this.until.value = localText(this.known?.until);
    this.windows.value = (this.known?.windows ?? []).join("; ");
    this.zone.value = this.known?.zone ?? OWN_ZONE;
    this.start = this.typed();
    this.show();
  }

  show() {
    const isWeekly = this.kind.value === "weekly";
    this.weekly.hidden = !isWeekly;
    setText(this.untilText, isWeekly ? "Until (empty: for ever)" : "Until");
  }

  fill(hours, onchange) {
    this.until.value = localText(new Date(Date.now() + hours * HOUR_MS).toISOString());
    onchange();
  }

  typed() {
    return [this.kind, this.from, this.until, this.windows, this.zone].map(({ value }) => value).join("\n");
  }

  get isTouched() {
    return this.typed() !== this.start;
  }

  /** Marks the field that the broker refuses, and no other one. */
  mark(refused) {
    for (const name of NAMES) this[name].removeAttribute("aria-invalid");
    if (refused) this[refused].setAttribute("aria-invalid", "true");
  }

  /** {times} as an operation has them, or {error}. */
  read() {
    if (!this.isTouched && this.known) return { times: this.known };
    const moments = { from: this.from.value, until: this.until.value };
    const times = Object.fromEntries(Object.entries(moments).filter(([, text]) => text).map(([name, text]) => [name, new Date(text).toISOString()]));
    if (this.kind.value === "once") return times.until ? { times } : { error: "Enter until when the values apply." };
    const windows = this.windows.value.split(";").map((text) => text.trim()).filter(Boolean);
    if (!windows.length) return { error: "Enter a window, such as Mon-Fri 09:00-17:00." };
    return { times: { ...times, windows, zone: this.zone.value.trim() || "UTC" } };
  }
}

function labelled(label, control, below = null) {
  return h("div.field", h("label", { for: control.id }, label), control, below);
}

/** A time for a field of this browser's zone, to the minute. */
function localText(iso) {
  if (!iso) return "";
  const at = new Date(iso);
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}
