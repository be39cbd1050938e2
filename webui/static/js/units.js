// Formats sizes, rates and times, and parses limits and durations from input.

import { readQuantity } from "./quantities.js";

const DECIMAL = ["B", "kB", "MB", "GB", "TB", "PB"];
const BINARY = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export const KEYS = {
  producer_byte_rate: { label: "Produce", column: "Produce", unit: "bytes", per: "/s", hint: "10 MB" },
  consumer_byte_rate: { label: "Fetch", column: "Fetch", unit: "bytes", per: "/s", hint: "20 MB" },
  request_percentage: { label: "Request time", column: "Request time (% of one thread)", unit: "percent", per: "", hint: "50 %" },
  controller_mutation_rate: { label: "Controller mutations", column: "Controller mutations/s", unit: "count", per: "/s", hint: "5" },
};

/** Also of a limit of addresses. */
export function limitLabel(key) {
  return KEYS[key]?.label ?? { connection_creation_rate: "New connections" }[key] ?? key;
}

/** Three significant digits, no trailing zeros: 1.05, 31.5, 312. */
export function digits(value) {
  const size = Math.abs(value);
  if (size >= 999.5 || Number.isInteger(value)) return group(Math.round(value));
  const decimals = size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2;
  return String(Number(value.toFixed(decimals)));
}

export function group(value) {
  return String(value).replace(/\B(?=(\d{3})+(?!\d))/g, "\u202f");
}

export function count(value, noun) {
  return `${group(value)} ${noun}${value === 1 ? "" : "s"}`;
}

/** Says which rows of other gateways a table lacks; each of them tells 500, `which` says of which kind. */
export function missingText(noun, nouns, which, unlisted, unheard) {
  const cut = unlisted ? `${group(unlisted)} ${unlisted === 1 ? noun : nouns} of other gateways ${unlisted === 1 ? "is" : "are"} not included: each gateway tells the 500 ${which}.` : "";
  return `${cut} ${silentText(unheard)}`.trim();
}

/** Names the gateways that have told nothing. */
export function silentText(unheard) {
  const names = unheard.map((gateway) => `gateway ${gateway}`).join(", ");
  return unheard.length ? `Not included: ${names}, which ${unheard.length === 1 ? "has" : "have"} told nothing yet.` : "";
}

/** 1048576 is 1 MiB and 1000000 is 1 MB: a limit is shown in the unit system in which it is round. */
export function isBinary(value) {
  return value >= 1024 && value % 1024 === 0 && value % 1000 !== 0;
}

export function bytes(value, binary = false) {
  const base = binary ? 1024 : 1000;
  const names = binary ? BINARY : DECIMAL;
  let step = 0;
  let shown = Math.abs(value);
  while (step < names.length - 1 && shown >= base * 0.9995) {
    shown /= base;
    step += 1;
  }
  return `${value < 0 ? "-" : ""}${step === 0 ? group(Math.round(shown)) : digits(shown)} ${names[step]}`;
}

export function bytesPerSecond(value, binary = false) {
  return `${bytes(value, binary)}/s`;
}

const OPEN_CONNECTIONS = new Set(["max.connections.per.ip", "max.connections.per.user"]);

/** A limit, or a rate compared with it, in the limit's unit. */
export function rate(key, value, bound = value) {
  const { unit, per } = KEYS[key] ?? { unit: "count", per: OPEN_CONNECTIONS.has(key) ? "" : "/s" };
  if (unit === "bytes") return bytes(value, isBinary(bound)) + per;
  if (unit === "percent") return `${digits(value)} %`;
  return digits(value) + per;
}

/** Like `rate` without rounding, for a tooltip. */
export function rawRate(key, value) {
  const { unit, per } = KEYS[key] ?? { unit: "count", per: "/s" };
  const exact = group(Number.isInteger(value) ? value : Number(value.toFixed(3)));
  if (unit === "bytes") return `${exact} bytes${per}`;
  if (unit === "percent") return `${exact} % of one thread's time`;
  return `${exact} ${key === "request_rate" ? "requests" : "partitions"}${per}`;
}

/** The quantity of a limit, by the unit in KEYS. */
const QUANTITIES = { bytes: "byte-rate", percent: "percent", count: "rate" };

/** A sentence of a message that says what to write. */
export function sentence(message) {
  return `${message[0].toUpperCase()}${message.slice(1)}.`;
}

/** Parses a limit: {value}, or {error} to show beside the field; empty input is {value: null}, no limit. */
export function readLimit(key, typed) {
  if (typed.trim() === "") return { value: null };
  const { value, error } = readQuantity(QUANTITIES[KEYS[key].unit], typed);
  if (error) return { error: sentence(error) };
  return value === 0 ? { error: "Enter a value greater than 0, or leave the field empty for no limit." } : { value };
}

/** Parses a whole number of at least `least`, or a whole `rate`; empty input is {value: null}. */
export function readWhole(typed, least = 1, quantity = "count") {
  if (typed.trim() === "") return { value: null };
  const { value, error } = readQuantity(quantity, typed);
  if (error?.includes("comma") || error?.includes("may mean")) return { error: sentence(error) };
  return error || value < least || !Number.isInteger(value) ? { error: `Enter a whole number of at least ${least}.` } : { value };
}

/** Formats a stored limit for its input field. */
export function writeLimit(key, value) {
  if (value === null || value === undefined) return "";
  if (KEYS[key].unit !== "bytes") return String(value);
  const shown = bytes(value, isBinary(value)).replace(/\u202f/g, "");
  return readLimit(key, shown).value === value ? shown : String(value);
}

export function milliseconds(value) {
  return `${group(Math.max(0, Math.round(value)))} ms`;
}

/** A time to be read at a glance: 340 ms, 6.7 s, 67 s, 4 min. */
export function about(ms) {
  if (ms < 1000) return milliseconds(ms);
  if (ms < 10_000) return `${digits(Math.round(ms / 100) / 10)} s`;
  return ms < 120_000 ? `${Math.round(ms / 1000)} s` : duration(ms);
}

export function quantile(value) {
  if (value === null) return "–";
  return value < 10 ? `${Number(value.toFixed(2))} ms` : milliseconds(value);
}

export function percent(fraction) {
  return `${digits(Math.round(fraction * 1000) / 10)} %`;
}

export function duration(ms) {
  const seconds = Math.floor(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86400)} d ${Math.floor((seconds % 86400) / 3600)} h`;
}

/** In one unit; tooltips have the exact time. The year appears only if it is not the current one. */
export function ago(iso, now = Date.now()) {
  const passed = now - Date.parse(iso);
  if (passed < 5000) return "just now";
  if (passed < 3600_000) return `${duration(passed)} ago`;
  if (passed < 86400_000) return `${Math.floor(passed / 3600_000)} h ago`;
  return day(iso, now);
}

export function day(iso, now = Date.now()) {
  const year = new Date(iso).getFullYear() === new Date(now).getFullYear() ? undefined : "numeric";
  return new Date(iso).toLocaleDateString(undefined, { day: "numeric", month: "short", year });
}

/** Local time, with UTC for the tooltip. */
export function clock(ms) {
  return new Date(ms).toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
}

export function utcDay(ms) {
  return new Date(ms).toLocaleDateString(undefined, { timeZone: "UTC", day: "numeric", month: "short" });
}

export function utcClock(ms) {
  return new Date(ms).toISOString().slice(11, 19);
}

const TIMES = [["d", 86_400_000], ["h", 3_600_000], ["min", 60_000], ["s", 1000]];

/** In the largest unit in which it reads back as the same: 300000 is 5 min, 90500 is 90.5 s. */
export function everyText(ms) {
  for (const [unit, factor] of TIMES) {
    const text = `${digits(ms / factor)} ${unit}`;
    if (ms >= factor && readQuantity("duration", text).value === ms) return text;
  }
  return `${group(ms)} ms`;
}

/** Parses a duration: {value} in milliseconds, or {error}; empty input is {value: null}. */
export function readDuration(typed) {
  if (typed.trim() === "") return { value: null };
  const { value, error } = readQuantity("duration", typed);
  return error ? { error: sentence(error) } : { value };
}

// -1 of others means something else.
const UNLIMITED = /^(log\.)?retention\.(ms|bytes)$/;

/** The unit of a setting: the key ends in it, or the broker tells it. */
export function settingUnit({ name, unit }) {
  return /\.(ms|bytes|seconds|minutes|hours)$/.exec(name)?.[1] ?? unit ?? "";
}

/** A setting's value in words: 604800000 of ms is 7 d; the value itself where it has no unit. */
export function settingWords(setting, value) {
  if (value === null || value === undefined || value === "") return value ?? "";
  if (!/^-?\d+$/.test(value)) return settingText(setting, value);
  const number = Number(value);
  const unit = settingUnit(setting);
  if (settingText(setting, value) !== value || (number === -1 && UNLIMITED.test(setting.name))) return "no limit";
  if (unit === "ms") return number > 0 ? everyText(number) : value;
  if (unit === "bytes") return number > 0 ? bytes(number, isBinary(number)) : value;
  if (["seconds", "minutes", "hours"].includes(unit) && number > 0) return `${group(value)} ${number === 1 ? unit.slice(0, -1) : unit}`;
  return number >= 10_000 ? group(value) : value;
}

/** A setting's value: from the largest whole number on, the largest of its type, it is no limit. */
export function settingText({ type }, value) {
  return ["long", "double"].includes(type) && Number(value) >= 2 ** 63 ? "no limit" : value;
}
