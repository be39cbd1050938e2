// Imports a file of rules: chosen or pasted, JSON or YAML. Its differences are shown before anything is applied.

import { upload } from "./api.js";
import { Consequences } from "./editor.js";
import { h, replace, setText } from "./dom.js";
import { debounced, toast } from "./shell.js";
import { count, group } from "./units.js";
import { escape, guard } from "./unsaved.js";

const SHOWN = 200;
// More than a broker accepts, and little enough for a text field.
const LARGEST_FILE = 20e6;
let serial = 0;

/** The menu "Import, export" of a page: `open()` opens the panel. */
export function importMenu(open) {
  const menu = document.getElementById("files");
  const leave = () => (menu.open = false);
  document.getElementById("import").addEventListener("click", () => {
    leave();
    open();
  });
  menu.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !menu.open) return;
    leave();
    menu.querySelector("summary").focus();
  });
  document.addEventListener("click", (event) => menu.contains(event.target) || leave());
}

export class ImportPanel {
  /**
   * `path`: of the import; `nouns`: [one, many]; `example`: a file; `rows(answer)`: the differences as
   * [{what, key, before, after}]; `reach(answer)`: what else the preview says, or null.
   */
  constructor({ path, title, nouns, example, rows, reach = () => null, onclose }) {
    Object.assign(this, { path, nouns, rows, reach, onclose });
    const id = `import-${(serial += 1)}`;
    this.file = h("input", { id: `${id}-file`, type: "file", accept: ".json,.yaml,.yml,application/json,application/yaml", onchange: () => this.chosen() });
    this.text = h("textarea.mono", { id: `${id}-text`, rows: "12", spellcheck: "false", autocomplete: "off", placeholder: example, "aria-describedby": `${id}-note` });
    this.prune = h("input", { id: `${id}-prune`, type: "checkbox" });
    this.effect = new Consequences(() => this.changed());
    this.trouble = h("div.import-trouble", { role: "alert" });
    this.save = h("button.primary", { type: "submit", disabled: true }, "Import");
    this.element = h("form.editor.import", { novalidate: true, onsubmit: (event) => this.submit(event), onkeydown: (event) => escape(event, this), oninput: (event) => event.target !== this.file && this.changed() },
      h("h2", title),
      h("div.field", h("label", { for: this.file.id }, "File"), this.file),
      h("div.field", h("label", { for: this.text.id }, "Content"), this.text,
        h("span.note", { id: `${id}-note` }, "Choose a file, or paste its text: JSON or YAML, as the export writes it.")),
      h("label.check-field", { for: this.prune.id }, this.prune, ` Remove ${nouns[1]} that the file does not list`),
      this.trouble,
      this.effect.element,
      h("div.buttons", this.save, h("button", { type: "button", onclick: () => onclose() }, "Cancel")));
    this.version = null;
    this.request = null;
    this.previewSoon = debounced(() => this.preview(), 300);
    this.changed();
    guard(this);
  }

  focus() {
    this.text.focus();
    this.element.scrollIntoView({ block: "nearest" });
  }

  close() {
    this.request?.abort();
    this.closed = true;
  }

  async chosen() {
    const [file] = this.file.files;
    if (!file) return;
    const before = this.text.value;
    let text = "";
    if (file.size === 0 || file.size > LARGEST_FILE) {
      this.file.value = "";
      return void this.refused([{ message: `${file.name} ${file.size ? `is larger than ${LARGEST_FILE / 1e6} MB` : "is empty"}. The content below is unchanged.` }]);
    }
    try {
      text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    } catch {
      this.file.value = "";
      return void this.refused([{ message: `${file.name} cannot be read as UTF-8 text. The content below is unchanged.` }]);
    }
    this.put(text);
    const back = () => this.put(before);
    if (before.trim() && before !== text) toast(`${file.name} replaced the content.`, { action: { label: "Undo", run: back } });
  }

  put(text) {
    this.text.value = text;
    this.file.value = "";
    this.changed();
  }

  changed() {
    this.request?.abort();
    this.version = null;
    this.save.disabled = true;
    setText(this.save, "Import");
    replace(this.trouble);
    this.text.removeAttribute("aria-invalid");
    if (this.text.value.trim() === "") return void this.effect.hint("Nothing changes before you have seen the differences.");
    this.effect.wait();
    this.previewSoon();
  }

  ask(isDryRun) {
    this.request?.abort();
    this.request = new AbortController();
    const media = this.text.value.trimStart().startsWith("{") ? "application/json" : "application/yaml";
    const query = new URLSearchParams({ validate_only: isDryRun, prune: this.prune.checked });
    return upload(`${this.path}?${query}`, this.text.value, media, isDryRun ? undefined : this.version, this.request.signal);
  }

  async preview() {
    if (this.closed || this.text.value.trim() === "") return;
    try {
      const answer = await this.ask(true);
      const rows = this.rows(answer);
      this.version = answer.version;
      this.effect.show(rows.length ? [differences(rows, this.nouns), this.reach(answer)] : h("p", "Nothing to change: the broker has all of this already."), "");
      this.save.disabled = rows.length === 0;
      setText(this.save, rows.length ? `Import ${count(rows.length, "change")}` : "Import");
    } catch (problem) {
      if (problem.name !== "AbortError") this.problem(problem);
    }
  }

  async submit(event) {
    event.preventDefault();
    if (this.save.disabled) return;
    this.save.disabled = true;
    try {
      const answer = await this.ask(false);
      this.onclose();
      toast(`Imported ${count(this.rows(answer).length, "change")}.`, { action: { label: "Show them", run: () => location.assign("/audit") } });
    } catch (problem) {
      if (problem.name === "AbortError") return;
      this.problem(problem);
      if (problem.status === 412) this.previewSoon();
    }
  }

  /** Keeps the content, and names each refused entry with its line. */
  problem(problem) {
    this.effect.refused(problem);
    const { refused = [], line = null } = problem.document;
    this.refused(refused.length ? refused.map((each) => ({ ...each, message: each.message ?? each.error })) : [{ line, message: problem.message }]);
  }

  refused(entries) {
    this.text.setAttribute("aria-invalid", "true");
    const lines = entries.slice(0, SHOWN).map(({ line, message }) => h("li", line && [this.jump(line), " "], line ? message.replace(`Line ${line}: `, "") : message));
    replace(this.trouble, h("ul", lines), entries.length > SHOWN && h("p", `and ${group(entries.length - SHOWN)} more`));
  }

  jump(line) {
    return h("button.small", { type: "button", onclick: () => this.select(line) }, `Line ${group(line)}`);
  }

  select(line) {
    const lines = this.text.value.split("\n");
    const start = lines.slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0);
    this.text.focus();
    this.text.setSelectionRange(start, start + (lines[line - 1]?.length ?? 0));
    this.text.scrollTop = (this.text.scrollHeight * Math.max(0, line - 4)) / Math.max(1, lines.length);
  }
}

function differences(rows, nouns) {
  const lines = rows.slice(0, SHOWN).map(({ what, key, before, after }) => h("tr",
    h("th", { scope: "row" }, what), h("td", key), h("td", before ?? h("span.quiet", "–")), h("td", after ?? h("span.quiet", "removed"))));
  const heads = [nouns[0][0].toUpperCase() + nouns[0].slice(1), "Setting", "Now", "After the import"];
  return [
    h("p", h("b", count(rows.length, "change"))),
    h("div.scroller", { tabindex: "0", role: "region", "aria-label": "Differences" },
      h("table.small-table", h("thead", h("tr", heads.map((head) => h("th", { scope: "col" }, head)))), h("tbody", lines))),
    rows.length > SHOWN && h("p.quiet", `and ${group(rows.length - SHOWN)} more`),
  ];
}
