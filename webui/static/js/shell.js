// The frame around every page: live mark, throttled badge, toasts, signing out, keys.

import { post } from "./api.js";
import { h, setText } from "./dom.js";
import { Live } from "./live.js";
import { clock } from "./units.js";

const WORDS = { waiting: "Connecting", live: "Live", paused: "Paused while hidden", ended: "Signed out" };

/** The page's stream. `overview` is always part of it: it is the badge's source and the heartbeat. */
export function startLive(topics, handlers) {
  const mark = document.getElementById("live");
  const words = mark.querySelector("span");
  const live = new Live(["overview", ...topics], (state, since) => {
    mark.dataset.state = state;
    document.body.dataset.stale = state === "stale" ? "yes" : "no";
    const last = since ? `figures of ${clock(since)}` : "the broker does not answer";
    setText(words, state === "stale" ? `No connection, ${last}` : WORDS[state]);
  });
  for (const topic of topics) live.on(topic, handlers[topic]);
  live.on("overview", (overview) => {
    showBadge(overview.figures.throttled);
    handlers.overview?.(overview);
  });
  return live;
}

function showBadge(count) {
  const badge = document.getElementById("nav-throttled");
  badge.hidden = count === 0;
  setText(badge, String(count));
  badge.setAttribute("aria-label", `${count} held`);
  // Where the pages are behind the menu, so would be the badge.
  const link = document.getElementById("bar-throttled");
  link.hidden = count === 0;
  setText(link, `${count} held`);
}

/** `action`: {label, run}. Stays longer with one, as it has to be read and decided on. */
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
  box.replaceChildren(element);
  setTimeout(dismiss, action ? 10000 : 4000);
}

/** What the address says about the table; only what differs from the default is kept in it. */
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

/** Single keys, as long as nobody is typing. */
export function onKeys(keys) {
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest?.("input, select, textarea");
    if (typing || event.ctrlKey || event.metaKey || event.altKey || !(event.key in keys)) return;
    event.preventDefault();
    keys[event.key]();
  });
}

document.getElementById("sign-out")?.addEventListener("click", async () => {
  try {
    await post("/logout");
  } finally {
    location.assign("/");
  }
});

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
