// The views of the Insights page: tabs, of which one is shown. The page stores which one in the URL.

export class Views {
  /** `onchoose(key)` is called when the user chooses another view. */
  constructor(onchoose) {
    this.list = document.getElementById("views");
    this.tabs = [...this.list.querySelectorAll("[role=tab]")];
    for (const tab of this.tabs) tab.addEventListener("click", () => onchoose(tab.dataset.view));
    this.list.addEventListener("keydown", (event) => this.key(event, onchoose));
  }

  get keys() {
    return this.tabs.map((tab) => tab.dataset.view);
  }

  show(key) {
    for (const tab of this.tabs) {
      const chosen = tab.dataset.view === key;
      tab.setAttribute("aria-selected", String(chosen));
      tab.tabIndex = chosen ? 0 : -1;
      document.getElementById(tab.getAttribute("aria-controls")).hidden = !chosen;
    }
  }

  key(event, onchoose) {
    const here = this.tabs.indexOf(event.target);
    const last = this.tabs.length - 1;
    const to = { ArrowLeft: here === 0 ? last : here - 1, ArrowRight: here === last ? 0 : here + 1, Home: 0, End: last }[event.key];
    if (here < 0 || to === undefined) return;
    event.preventDefault();
    this.tabs[to].focus();
    onchoose(this.tabs[to].dataset.view);
  }
}
