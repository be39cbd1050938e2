// Transactions: transactional ids; a row opens to its partitions, and an open transaction can be aborted after a
// preview.

import { get, post } from "./api.js";
import { Details, smallTable } from "./details.js";
import { empty, h, iconButton, needs, setText } from "./dom.js";
import { Editor } from "./editor.js";
import { Listing } from "./listing.js";
import { inPath, topicPage } from "./names.js";
import { once } from "./table.js";
import { ago, count, duration, group } from "./units.js";
import { OpenPanel } from "./unsaved.js";

function pathOf(name) {
  return `/api/v1/transactions/${inPath(name)}`;
}

class AbortPanel extends Editor {
  constructor({ row, onclose }) {
    super({ row, onclose });
    this.build({
      title: ["Abort the transaction of ", h("span.name", row.transactional_id)],
      save: "Abort transaction",
      isDangerous: true,
      fields: h("p", "Readers of committed records skip its records. The producer is fenced: its next request fails, and it must start anew."),
    });
  }

  focus() {
    this.buttons.lastChild.focus();
  }

  /** There is nothing to fill in: asks at once. */
  changed() {
    this.save.disabled = true;
    this.effect.wait();
    this.ask();
  }

  abort(query) {
    const { transactional_id: name, producer_id, producer_epoch } = this.row;
    return post(`${pathOf(name)}:abort${query}`, { producer_id, producer_epoch });
  }

  async preview() {
    const { producer_id: id, producer_epoch: epoch, partitions, command } = await this.abort("?validate_only=true");
    this.save.disabled = false;
    return [h("p", "Aborts in ", h("b", count(partitions, "partition")), `, and fences producer ${group(id)} with epoch ${epoch}.`), command];
  }

  async apply() {
    await this.abort("");
    return [`Aborted the transaction of ${this.row.transactional_id}.`];
  }
}

const ROWS = 200;

const edited = new OpenPanel({ listing: () => list, back: ".opener" });

const details = new Details({
  load: (row) => get(pathOf(row.transactional_id)),
  draw: drawPartitions,
});

const list = new Listing({
  topic: "transactions",
  label: "Transactional ids",
  onrow: (row) => details.toggle(row.transactional_id, row),
  nouns: ["transactional id", "transactional ids"],
  keyOf: (row) => row.transactional_id,
  sort: "name",
  rising: ["name", "state", "client", "open"],
  none: () => empty("transactions", "No transaction yet", "Producers with a transactional.id appear here with their transactions."),
  below: (key) => edited.below(key) ?? details.below(key),
  arrived: details.arrived,
  columns: [
    { label: "Transactional id", sort: "name", size: "name", whole: "bare", cell: (row, td) => once(td, row.transactional_id, () => details.opener(row, h("span.name", row.transactional_id))) },
    { label: "State", sort: "state", size: "state", cell: (row, td) => once(td, row.state, () => h("span.tag", { data: { state: row.state } }, row.state)) },
    { label: "Client", sort: "client", size: "client", cell: clientCell },
    { label: "Producer, epoch", size: "producer", num: true, cell: ({ producer_id: id, producer_epoch: epoch }, td) => setText(td, `${group(id)}, ${epoch}`) },
    { label: "Open for", sort: "open", size: "open", cell: openCell },
    { label: "Partitions", sort: "partitions", size: "count", num: true, cell: partitionsCell },
    { label: "", size: "actions", whole: "bare", num: true, cell: actionsCell },
  ],
});

function clientCell({ principal, client_id: client }, td) {
  once(td, `${principal} ${client}`, () => (principal ? h("span.two", h("span.name", principal), h("span.name", client || "no client id")) : h("span.quiet", { title: "It has not asked for a producer id since the broker started" }, "not known")));
}

function openCell({ state, open_since: since, timeout_ms: timeout, updated_at: updated }, td) {
  const ended = state === "Empty" ? "none yet" : updated === null ? "ended" : `ended ${ago(updated)}`;
  const text = since === null ? ended : ago(since).replace(/ ago$/, "");
  once(td, `${text} ${timeout}`, () => (since === null
    ? h(updated === null ? "span.quiet" : "time.quiet", { datetime: updated, title: updated }, text)
    : h("span.two", h("time", { datetime: since, title: `since ${since}` }, text), h("span", `times out after ${duration(timeout)}`))));
}

function partitionsCell({ partitions, holding_back: holding }, td) {
  once(td, `${partitions} ${holding}`, () => (holding > 0
    ? h("span.two", { title: `Readers of committed records wait in ${count(holding, "partition")}` }, h("b", group(partitions)), h("span", `${group(holding)} held back`))
    : h("span", group(partitions))));
}

function actionsCell(row, td) {
  td.row = row;
  const isOpen = row.state === "Ongoing";
  once(td, `${row.transactional_id} ${isOpen}`, () => (isOpen ? h("span.actions", needs("admin", iconButton("abort", `Abort the transaction of ${row.transactional_id}`, () => edited.open(td.row.transactional_id, (onclose) => new AbortPanel({ row: td.row, onclose }))))) : ""));
}

function drawPartitions({ partition_list: partitions, state }) {
  if (!partitions.length) return [h("p.quiet", state === "Ongoing" ? "The transaction has no partition yet." : "No transaction is open.")];
  const rows = partitions.slice(0, ROWS).map((each) => [
    h("a.name", { href: topicPage(each.topic) }, each.topic), String(each.partition),
    each.first_offset === null ? "–" : group(each.first_offset), group(each.last_stable_offset), group(each.end),
    each.holds_back ? h("b", `${count(each.end - each.last_stable_offset, "record")} held back`) : h("span.quiet", "no"),
  ]);
  return [
    smallTable("Partitions of the transaction", [["Topic", false], ["Partition", true], ["First offset", true], ["Last stable offset", true], ["End", true], ["Holds readers back", false]], rows),
    partitions.length > ROWS && h("p.quiet", `The first ${ROWS} of ${group(partitions.length)} are shown.`),
  ];
}

details.follow(list);
list.start();
