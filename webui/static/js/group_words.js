// What is said of groups, in lists and on their pages.

import { h } from "./dom.js";
import { digits, duration, everyText, group } from "./units.js";

const STEADY_PER_S = 0.05;
// Sixty samples, one every ten seconds.
const WHOLE_TREND_S = 590;
const DAY_MS = 86_400_000;

/**
 * {text, level, title}: where the lag goes, if everything stays as in the last ten minutes. `young` says how much less
 * is known, after a start or of a new group: such a forecast is no alarm.
 */
export function forecast(row) {
  const found = direction(row);
  if (!found.isTrend || row.lag_trend_s >= WHOLE_TREND_S) return found;
  return { ...found, level: "young", young: `only ${duration(row.lag_trend_s * 1000)} known`, title: `${found.title}. Only the last ${duration(row.lag_trend_s * 1000)} are known; a forecast takes 10 min` };
}

function direction({ lag, lag_per_s: rate, members, lost }) {
  if (lag === null) return { text: "–", title: "No committed offsets" };
  if (lag === 0) return { text: "caught up", title: "The group has read every record" };
  const ahead = lag - (lost ?? 0);
  if (members === 0) return { text: "no members", level: "watch", title: "No member reads: the lag grows with each record" };
  if (rate === null) return { text: "not known yet", title: "It takes three samples, half a minute" };
  if (Math.abs(rate) < STEADY_PER_S) return { text: "steady", level: "watch", isTrend: true, title: "The lag neither grows nor falls" };
  if (rate > 0) return { text: `grows ${digits(rate)}/s`, level: "urgent", isTrend: true, title: `At this rate it is twice as large in ${spanText((lag / rate) * 1000)}` };
  const left = (ahead / -rate) * 1000;
  return { text: `caught up in ${spanText(left)}`, level: "good", isTrend: true, title: `It falls by ${digits(-rate)} records a second` };
}

function spanText(ms) {
  if (ms < 60_000) return "less than 1 min";
  if (ms > 30 * DAY_MS) return "more than a month";
  const unit = ms < 3_600_000 ? 60_000 : ms < DAY_MS ? 3_600_000 : DAY_MS;
  return everyText(Math.ceil(ms / unit) * unit);
}

export function forecastTag(row) {
  const { text, level, title, young } = forecast(row);
  if (young) return h("span.two", { title }, h("span", text), h("span", young));
  return level ? h("span.forecast", { title, data: { level } }, text) : h("span.quiet", { title }, text);
}

/** The lag, and how much of it is lost. */
export function lagText({ lag, lag_is_known: known, lost }) {
  const number = !known
    ? h(lag > 0 ? "b" : "span.quiet", { title: "The lag of some partitions could not be read" }, lag === null ? "unknown" : `≥ ${group(lag)}`)
    : lag === null ? h("span.quiet", { title: "No committed offsets" }, "–") : h(lag > 0 ? "b" : "span.quiet", group(lag));
  return lost > 0 ? h("span.two", number, h("span.lost", { title: LOST }, `${group(lost)} lost`)) : number;
}

export const LOST = "Retention deleted these records before the group read them. They count as lag until the group goes on behind them; that is no progress.";

export function typeText(type) {
  return { consumer: "Consumer", share: "Share", streams: "Streams" }[type] ?? "Classic";
}

/** The facts on a group's page. */
export function groupFacts(row) {
  const { title } = forecast(row);
  return [
    ["State", h("span.tag", { data: { state: row.state } }, row.state)],
    ["Type", typeText(row.group_type), [row.protocol && `protocol ${row.protocol}`, row.assignor && `assignor ${row.assignor}`].filter(Boolean).join(", ") || null],
    ["Members", group(row.members)],
    ["Lag (records)", row.lag === null ? "–" : `${row.lag_is_known ? "" : "≥ "}${group(row.lag)}`],
    ["Lost to retention", row.lost === null ? "–" : h(row.lost > 0 ? "span.lost" : "span", group(row.lost)), LOST],
    ["Forecast", forecastTag(row), title],
  ];
}
