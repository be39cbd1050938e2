// Doctor: symptoms, each with the metrics that explain it, in the order in which to check them.

import { get } from "./api.js";
import { copyable, failed, h, replace, setText, skeleton } from "./dom.js";
import { startLive } from "./shell.js";
import { once } from "./table.js";
import { bytes, digits, group, percent, quantile, settingWords } from "./units.js";

const WORDS = { good: "fine", watch: "check", urgent: "trouble" };
const VERDICTS = {
  good: "No problem found.",
  watch: "Some values need attention.",
  urgent: "A problem needs action.",
};
const UNITS = {
  share: (value) => percent(value),
  count: (value) => group(value),
  per_s: (value) => `${digits(value)}/s`,
  ms: (value) => quantile(value),
  bytes: (value) => bytes(value, true),
};
const box = document.getElementById("symptoms");
const verdict = document.getElementById("verdict");
const cards = new Map();
const MOST = 3;

function card({ key, title }) {
  const mark = h("span.level");
  const checks = h("div.checks");
  const id = `symptom-${key}`;
  const element = h("section.card.flush.symptom", { "aria-labelledby": id }, h("header.symptom-head", h("h2", { id }, title), mark), checks);
  box.append(element);
  return { element, mark, checks, rows: new Map() };
}

function show({ level, symptoms }) {
  if (cards.size === 0) replace(box);
  verdict.dataset.level = level;
  once(verdict, JSON.stringify([level, found(symptoms)]), () => [VERDICTS[level], found(symptoms).flatMap(([key, words]) => [" ", h("a", { href: `#symptom-${key}` }, words)])]);
  for (const symptom of symptoms) {
    if (!cards.has(symptom.key)) cards.set(symptom.key, card(symptom));
    const { element, mark, checks, rows } = cards.get(symptom.key);
    element.dataset.level = symptom.level;
    mark.dataset.level = symptom.level;
    setText(mark, WORDS[symptom.level]);
    const titles = new Set(symptom.checks.map(({ title }) => title));
    for (const [title, row] of rows) {
      if (!titles.has(title)) {
        row.remove();
        rows.delete(title);
      }
    }
    for (const check of symptom.checks) {
      if (!rows.has(check.title)) {
        rows.set(check.title, h("div.check"));
        checks.append(rows.get(check.title));
      }
      draw(rows.get(check.title), check);
    }
  }
}

/** [key of the symptom, words]: the checks that are not fine, in order; at most three. */
function found(symptoms) {
  const all = symptoms.flatMap(({ key, checks }) => checks.filter(({ level }) => level !== "good").map(({ title }) => [key, title]));
  return all.length > MOST ? [...all.slice(0, MOST), [all[MOST][0], `and ${all.length - MOST} more`]] : all;
}

function draw(row, check) {
  const { level, title, says, page } = check;
  row.dataset.level = level;
  once(row, JSON.stringify({ ...check, value: check.value === null ? null : UNITS[check.unit](check.value) }), () => [
    h("span.dot", { "aria-hidden": "true" }),
    h("div.about", h("p", page ? h("a", { href: page }, title) : title, h("span.hidden", `, ${WORDS[level]}`)), h("p.quiet.small", says)),
    h("p.value", figure(check)),
    setting(check),
  ]);
}

function figure({ value, of, unit }) {
  if (value === null) return h("span.quiet", "–");
  const shown = h("b", UNITS[unit](value));
  return of ? h("span", shown, h("span.quiet", ` of ${UNITS[unit](of)}`)) : shown;
}

function setting({ setting: found }) {
  if (!found) return h("div.setting");
  const { name, value, dynamic, command } = found;
  const when = dynamic ? "Dynamic: can be changed while the broker runs" : "A change needs a restart";
  return h("div.setting",
    h("p.small", { title: `${when}; ${value || "not set"}` }, h("code", name), h("span.quiet", ` ${settingText(name, value)}${dynamic ? "" : "; a change needs a restart"}`)),
    command && copyable(command, `Command that changes ${name}`));
}

// Java's largest integers stand for no limit.
const NO_LIMIT = [String(2 ** 31 - 1), "9223372036854775807"];

function settingText(name, value) {
  if (value === null || value === "") return "not set";
  if (NO_LIMIT.includes(value)) return "no limit";
  return settingWords({ name, type: "long" }, value);
}

async function start() {
  try {
    show(await get("/api/v1/doctor"));
  } catch (problem) {
    replace(box, failed(problem, start));
  }
}

replace(box, skeleton(8));
await start();
startLive(["doctor"], { doctor: show }).open();
