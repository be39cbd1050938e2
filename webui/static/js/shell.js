// The frame around every page: live indicator, throttled badge, toasts, logout, keyboard shortcuts.

import { post } from "./api.js";
import { startCutNames } from "./cut_names.js";
import { startDisplay } from "./display.js";
import { h, icon, setText } from "./dom.js";
import { Live } from "./live.js";
import { clock, count as counted } from "./units.js";

const LABELS = { waiting: "Connecting", live: "Live", paused: "Paused while hidden", ended: "Logged out" };

/** The page's stream. It always includes `overview`, the source of the badge and the heartbeat. */
export function startLive(topics, handlers) {
  const mark = document.getElementById("live");
  const label = mark.querySelector("span");
  const live = new Live(["overview", ...topics], (state, since) => {
    mark.dataset.state = state;
    document.body.dataset.stale = state === "stale" ? "yes" : "no";
    const last = since ? `Disconnected; data from ${clock(since)}, retrying` : "Disconnected, retrying";
    setText(label, state === "stale" ? last : LABELS[state]);
  });
  for (const topic of topics) live.on(topic, handlers[topic]);
  live.on("overview", (overview) => {
    showThrottled((overview.gateways ?? overview.metrics).throttled);
    showHealth(overview);
    handlers.overview?.(overview);
  });
  return live;
}

function showThrottled(count) {
  const badge = document.getElementById("nav-throttled");
  badge.hidden = count === 0;
  setText(badge, String(count));
  badge.setAttribute("aria-label", `${count} throttled`);
  // On small screens the menu hides the badge.
  const link = document.getElementById("bar-throttled");
  link.hidden = count === 0;
  setText(link, `${count} throttled`);
}

/** Alerts that fire and, at a gateway, upstream nodes that do not answer. */
function showHealth({ firing, upstream }) {
  const badge = document.getElementById("nav-health");
  const away = upstream ? upstream.nodes - upstream.connected : 0;
  const failing = upstream && !["connecting", "connected"].includes(upstream.condition);
  badge.hidden = !failing && firing + away === 0;
  setText(badge, failing ? "!" : String(firing + away));
  const said = [failing && upstream.condition, firing && `${counted(firing, "alert")} firing`, !failing && away && `${away} upstream nodes do not answer`];
  badge.setAttribute("aria-label", said.filter(Boolean).join(", "));
}

/** `action`: {label, run}. A toast with an action stays longer. */
export function toast(text, { kind = "good", action = null } = {}) {
  const box = document.getElementById("toasts");
  const element = h("div.toast", { data: { kind } }, h("span", text));
  const dismiss = () => element.remove();
  if (action) {
    const run = () => {
      dismiss();
      action.run();
    };
    element.append(h("button.plain", { type: "button", onclick: run }, action.label));
  }
  element.append(h("button.plain.icon-only.close", { type: "button", title: "Close", "aria-label": "Close this message", onclick: dismiss }, icon("close")));
  box.replaceChildren(element);
  // A message under the pointer or with the focus stays, so that its buttons do not vanish while they are aimed at.
  const wait = () => (element.matches(":hover, :focus-within") ? setTimeout(wait, 1000) : dismiss());
  setTimeout(wait, action ? 10000 : 4000);
}

const SAID = "said";

/** Goes to a page, which says `text` there. */
export function goAndSay(href, text) {
  sessionStorage.setItem(SAID, text);
  location.assign(href);
}

const said = sessionStorage.getItem(SAID);
if (said !== null && document.getElementById("toasts")) {
  sessionStorage.removeItem(SAID);
  toast(said);
}

// A control that the role may not use says so also where there is no pointer to hover with.
document.addEventListener("click", ({ target }) => {
  const refused = target.closest?.('[aria-disabled="true"][title]');
  if (refused) toast(refused.title, { kind: "bad" });
}, true);

/** The table's query in the URL; only values that differ from the defaults are stored. */
export class UrlState {
  constructor(defaults) {
    this.defaults = defaults;
    this.values = { ...defaults };
    this.read();
  }

  read() {
    const search = new URLSearchParams(location.search);
    for (const name of Object.keys(this.defaults)) this.values[name] = search.get(name) ?? this.defaults[name];
  }

  set(changes) {
    Object.assign(this.values, changes);
    const search = new URLSearchParams();
    for (const [name, value] of Object.entries(this.values)) {
      if (value !== this.defaults[name]) search.set(name, value);
    }
    const text = search.toString();
    history.replaceState(null, "", text ? `?${text}` : location.pathname);
  }
}

export function debounced(run, ms) {
  let timer = 0;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => run(...given), ms);
  };
}

const known = new Set();

/** Single-key shortcuts, inactive while a field has the focus. */
export function onKeys(keys) {
  for (const key of Object.keys(keys)) known.add(key);
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest?.("input, select, textarea");
    if (typing || event.ctrlKey || event.metaKey || event.altKey || !(event.key in keys)) return;
    event.preventDefault();
    keys[event.key]();
  });
}

document.getElementById("sign-out")?.addEventListener("click", async () => {
  let answer = null;
  try {
    answer = await post("/logout");
  } finally {
    location.assign(answer?.location ?? "/");
  }
});

async function openKeys() {
  if (document.querySelector("dialog[open]")) return;
  const { showKeys } = await import("./keys.js");
  showKeys(known);
}

onKeys({ "?": openKeys });
document.getElementById("keys")?.addEventListener("click", openKeys);

// A menu closes when it is left, by Escape, and when something of it is downloaded.
for (const each of document.querySelectorAll("details.menu")) {
  const leave = ({ target }) => each.contains(target) || each.removeAttribute("open");
  document.addEventListener("pointerdown", leave);
  document.addEventListener("focusin", leave);
  each.addEventListener("click", ({ target }) => target.closest("a[download]") && each.removeAttribute("open"));
  each.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !each.open) return;
    event.stopPropagation();
    each.removeAttribute("open");
    each.querySelector("summary").focus();
  });
}

const menu = document.getElementById("menu");

function openMenu(open) {
  menu?.setAttribute("aria-expanded", String(open));
}

menu?.addEventListener("click", () => openMenu(menu.getAttribute("aria-expanded") !== "true"));
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || menu?.getAttribute("aria-expanded") !== "true") return;
  openMenu(false);
  menu.focus();
});

startDisplay();
startCutNames();

// A link that ends in #new, #import or #produce begins that action of its page.
const BEGINNINGS = { "#new": "add", "#import": "import", "#produce": "produce" };

function begin(hash) {
  const control = document.getElementById(BEGINNINGS[hash] ?? "");
  if (!control) return;
  history.replaceState(null, "", location.pathname + location.search);
  control.click();
}

// Read now: a page that writes its query into the address removes the end of it.
const atStart = location.hash;
window.addEventListener("load", () => begin(atStart));
window.addEventListener("hashchange", () => begin(location.hash));

async function openPalette() {
  if (document.querySelector("dialog[open]")) return;
  const { Palette } = await import("./palette.js");
  new Palette().open();
}

document.getElementById("find")?.addEventListener("click", openPalette);
document.addEventListener("keydown", (event) => {
  if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.shiftKey || event.altKey) return;
  if (!document.getElementById("find")) return;
  event.preventDefault();
  openPalette();
});
