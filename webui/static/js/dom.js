// Builds DOM elements. Text is only ever inserted as text: nothing uses innerHTML, and the
// Content-Security-Policy (trusted-types 'none') forbids it.

import { visibleParts, visibleText } from "./names.js";

const SVG = "http://www.w3.org/2000/svg";

/** h("td.num", {title: "x"}, "text", child, null) */
export function h(spec, ...rest) {
  return build(document.createElement(spec.split(".")[0]), spec, rest);
}

export function svg(spec, ...rest) {
  return build(document.createElementNS(SVG, spec.split(".")[0]), spec, rest);
}

function build(element, spec, rest) {
  const classes = spec.split(".").slice(1);
  if (classes.length) element.setAttribute("class", classes.join(" "));
  for (const part of rest) {
    if (isProperties(part)) setAll(element, part);
    else append(element, part);
  }
  return element;
}

function isProperties(part) {
  return part !== null && typeof part === "object" && !(part instanceof Node) && !Array.isArray(part);
}

function setAll(element, properties) {
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "data") Object.assign(element.dataset, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
}

// An element of class `name` shows a name that somebody else chose.
function append(element, part) {
  if (Array.isArray(part)) part.forEach((one) => append(element, one));
  else if (typeof part === "string" && element.classList?.contains("name")) appendName(element, part);
  else if (part !== null && part !== undefined && part !== false) element.append(part);
}

function appendName(element, name) {
  for (const { text, hidden } of visibleParts(name)) {
    element.append(hidden ? h("span.unseen", { title: hidden }, text) : text);
  }
}

export function replace(element, ...children) {
  element.replaceChildren();
  append(element, children);
}

/** Like `exchange`, for live updates: keeps equal content as it is. */
export function refresh(element, ...children) {
  const next = element.cloneNode(false);
  append(next, children);
  if (!next.isEqualNode(element)) swap(element, next);
}

/** Like `replace`, and keeps the focus and what was scrolled. */
export function exchange(element, ...children) {
  const next = element.cloneNode(false);
  append(next, children);
  swap(element, next);
}

function swap(element, next) {
  const focused = element.contains(document.activeElement) ? pathTo(element, document.activeElement) : null;
  const scrolled = [...element.querySelectorAll(".scroller")].map((each) => [pathTo(element, each), each.scrollLeft, each.scrollTop]);
  element.replaceChildren(...next.childNodes);
  for (const [path, left, top] of scrolled) at(element, path)?.scrollTo(left, top);
  if (focused?.length) at(element, focused)?.focus({ preventScroll: true });
}

/** The position of a descendant, as the index of each step. */
function pathTo(element, inner) {
  const path = [];
  for (let here = inner; here !== element; here = here.parentNode) path.unshift([...here.parentNode.children].indexOf(here));
  return path;
}

function at(element, path) {
  return path.reduce((here, index) => here?.children[index], element);
}

/** Writes only changed text, so that an update does not disturb a selection or a screen reader. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** A bar that is filled up to `fraction`; a `level` colours it. */
export function bar(fraction, level) {
  const fill = h("i");
  fill.style.transform = `scaleX(${Math.min(1, fraction)})`;
  return h("span.bar", level ? { data: { level } } : null, fill);
}

/** The level of a limit of which this fraction is used. */
export function limitLevel(used) {
  return used > 1 ? "urgent" : used > 0.8 ? "watch" : "good";
}

export function icon(name) {
  return svg("svg.icon", { "aria-hidden": "true" }, svg("use", { href: `#i-${name}` }));
}

export function iconLink(name, label, href) {
  return h("a.button.plain.icon-only", { href, title: label, "aria-label": label }, icon(name));
}

export function iconButton(name, label, onclick) {
  return h("button.plain.icon-only", { type: "button", title: label, "aria-label": label, onclick }, icon(name));
}

const ROLES = ["viewer", "editor", "admin"];

/** A control that is enabled for `role` and above; for lower roles it is disabled and explains why. */
export function needs(role, control) {
  const mine = document.body.dataset.role;
  if (ROLES.indexOf(mine) >= ROLES.indexOf(role)) return control;
  control.setAttribute("aria-disabled", "true");
  control.title = `This needs the role ${role}; you are logged in as ${mine}.`;
  control.addEventListener("click", (event) => {
    event.preventDefault();
    event.stopImmediatePropagation();
  }, true);
  return control;
}

export function copyButton(text, label = "Copy") {
  const button = h("button.small", { type: "button" }, label);
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(typeof text === "function" ? text() : text);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Not allowed";
    }
    setTimeout(() => (button.textContent = label), 1600);
  });
  return button;
}

/** A name that somebody else chose, in one line, with the whole in a tooltip and a button that copies it. */
export function named(name, href = null, ...more) {
  const shown = visibleText(name);
  return h("span.named", h(href === null ? "span.name.cut" : "a.name.cut", { href, title: shown }, name), ...more, copyIcon(name, shown));
}

/** The button that copies a name; `shown` is the name as text that can be read. */
export function copyIcon(text, shown) {
  const label = `Copy ${shown}`;
  const button = h("button.plain.icon-only.copy", { type: "button", title: label, "aria-label": label }, icon("copy"));
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.title = "Copied";
    } catch {
      button.title = "Not allowed";
    }
    button.dataset.said = button.title;
    setTimeout(() => {
      button.title = label;
      delete button.dataset.said;
    }, 1600);
  });
  return button;
}

/** A command or snippet with its copy button, and the file that it names, if the page has it. */
export function copyable(text, label) {
  const snippet = h("div.copyable", h("pre", { tabindex: "0", "aria-label": label }, text), copyButton(text));
  const file = document.getElementById("client-properties");
  if (!file || !text.includes(`--command-config ${file.dataset.name}`)) return snippet;
  const { name, replace: hint } = file.dataset;
  return h("div", snippet, h("details", h("summary", name), h("p.quiet", hint), copyable(file.content.textContent.trim(), name)));
}

export function empty(iconName, title, text, action = null) {
  return h("div.state", icon(iconName), h("h2", title), h("p", text), action);
}

/** `retry` also runs when the broker responds again. */
export function failed(problem, retry) {
  const again = h("button", { type: "button", onclick: retry }, "Try again");
  document.addEventListener("recovered", () => again.isConnected && retry(), { once: true });
  return h("div.state", { role: "alert" }, h("h2", "Loading failed"), h("p", problem.message), again);
}

export function skeleton(lines = 6) {
  const rows = Array.from({ length: lines }, () => h("i"));
  return h("div.skeleton", { "aria-label": "Loading", role: "status" }, rows);
}
