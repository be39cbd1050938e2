// Broker quotas: broker-wide and cluster limits with their use, edited in place.

import { get } from "./api.js";
import { BrokerLimitEditor } from "./broker_limit_editor.js";
import { GROUPS, SETTINGS, stateOf, formatValue } from "./broker_limits.js";
import { bar, failed, h, icon, limitLevel, needs, replace, setText, skeleton } from "./dom.js";
import { startLive } from "./shell.js";
import { once } from "./table.js";
import { count, group, milliseconds } from "./units.js";
import { mayDiscard } from "./unsaved.js";

const box = document.getElementById("limits");
const verdict = document.getElementById("verdict");
const rows = new Map();
let open = null;
let latest = null;

function build() {
  replace(box, GROUPS.map(({ id, title, text }) => {
    const list = h("div.settings", SETTINGS.filter((each) => each.group === id).map(row));
    return h("section.card.flush", { "aria-labelledby": `group-${id}` },
      h("header.group-head", h("h2", { id: `group-${id}` }, title), h("p.quiet.small", text)), list);
  }));
}

function row(setting) {
  const use = h("div.use-cell");
  const value = h("p.value");
  const edit = needs("admin", h("button.small", { type: "button", "aria-label": `Edit ${setting.label}`, onclick: () => toggle(setting.key) }, icon("edit"), "Edit"));
  const place = h("div.place");
  const about = h("div.about", h("p", setting.label), h("p.quiet.small", h("code", setting.key)));
  const element = h("div.one-setting", about, use, value, edit, place);
  rows.set(setting.key, { setting, element, use, value, edit, place });
  return element;
}

function show(answer) {
  if (rows.size === 0) build();
  latest = answer;
  const throttled = answer.limits.reduce((sum, each) => sum + each.throttled, 0);
  verdict.dataset.level = throttled ? "watch" : "good";
  setText(verdict, verdictText(answer, throttled));
  for (const { setting, use, value } of rows.values()) {
    const state = stateOf(setting.key, answer);
    draw(setting, use, value, state, answer.enabled);
  }
  open?.editor.follow(answer);
}

function verdictText({ enabled, limits }, throttled) {
  if (!enabled) return "Broker-wide limits are not enforced.";
  const set = limits.filter((each) => each.value !== null).length;
  if (throttled) return `${count(throttled, "connection")} throttled by a broker-wide limit.`;
  return set ? `${count(set, "limit")} enforced; no connection is throttled.` : "Enforced, but no limit is set: rates are only measured.";
}

function draw(setting, use, value, state, enabled) {
  const { kind } = setting;
  once(value, JSON.stringify(state.value), () => h("b", { data: { none: state.value === null ? "yes" : "no" } }, formatValue(kind, state.value)));
  once(use, JSON.stringify([state, enabled]), () => useOf(setting, state, enabled));
}

function useOf({ kind, key }, state, enabled) {
  if (kind === "whole") return gauge(state.count, state.value, group(state.count), state.count === 1 ? "exists" : "exist");
  if (kind === "bytes" || kind === "rate") {
    if (!enabled) return h("p.quiet.small", "not measured");
    const more = state.throttles ? `${count(state.throttles, "throttle")}, ${milliseconds(state.throttle_ms)}${state.throttled ? `; ${group(state.throttled)} throttled now` : ""}` : "no throttles";
    return gauge(state.observed, state.value, formatValue(kind, state.observed), "now", more);
  }
  if (key === "automq.retry.storm.backoff.enabled" && (state.value || state.delayed)) {
    return h("p.small", `${count(state.delayed, "answer")} delayed`, h("span.quiet", `, ${milliseconds(state.delayed_ms)} in total; ${group(state.waiting)} delayed now`));
  }
  return null;
}

function gauge(observed, limit, shown, when, more = null) {
  const used = limit === null ? null : limit === 0 ? 1 : observed / limit;
  const head = h("span.apart", h("span", `${shown} ${when}`), h("span.quiet", used === null ? "" : `${Math.round(used * 100)} %`));
  return h("div.gauge", head, used === null ? null : bar(used, limitLevel(used)), more && h("span.quiet.small", more));
}

async function toggle(key) {
  if (!(await mayDiscard(open?.editor))) return;
  const same = open?.key === key;
  shut();
  if (same) return;
  const { setting, edit, place, element } = rows.get(key);
  const editor = new BrokerLimitEditor({ setting, answer: latest, onclose: () => shut(true) });
  open = { key, editor };
  element.dataset.open = "yes";
  edit.setAttribute("aria-expanded", "true");
  replace(place, editor.element);
  editor.focus();
}

function shut(focus = false) {
  if (!open) return;
  const { edit, place, element } = rows.get(open.key);
  open.editor.close();
  open = null;
  element.dataset.open = "no";
  edit.setAttribute("aria-expanded", "false");
  replace(place);
  if (focus) edit.focus();
}

async function start() {
  try {
    show(await get("/api/v1/broker-quotas"));
  } catch (problem) {
    replace(box, failed(problem, start));
  }
}

replace(box, skeleton(8));
await start();
startLive(["broker-quotas"], { "broker-quotas": show }).open();
