// Requests: where they spend their time, the queues, and what is left of threads and memory.

import { Charts, REQUESTS } from "./charts.js";
import { failed, h, replace } from "./dom.js";
import { LoadFeed, showSums } from "./load_feed.js";
import { startLive, UrlState } from "./shell.js";
import { showHealth, showPhases, showQueues } from "./vitals.js";

const charts = new Charts(new UrlState({ range: "5m" }), REQUESTS);
const feed = new LoadFeed((columns) => charts.show(columns));

function show(overview) {
  showSums(overview);
  showHealth(document.getElementById("health"), overview.metrics);
  showQueues(document.getElementById("queues"), overview.metrics.queues);
  showPhases(document.getElementById("phases"), overview.metrics.phases);
}

try {
  show(await feed.start());
} catch (problem) {
  replace(document.getElementById("charts"), h("div.card", failed(problem, () => location.reload())));
}
startLive([], {
  overview: (overview) => {
    charts.marks.update(overview.version);
    feed.arrived(overview);
    show(overview);
  },
}).open();
