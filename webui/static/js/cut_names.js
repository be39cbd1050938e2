// Names that are cut at the end of their cell: the whole name is the tooltip, and a button copies it.

import { copyIcon } from "./dom.js";

let shown = null;

const CUT = ".name, .two > *";
const isCut = (name) => name.scrollWidth > name.clientWidth;

/** The cut name at or in an element of a table's row, or null. */
function cutName(target) {
  const cell = target.closest?.("table.cards tr:not(.panel) > td, .card.flush > .scroller > .small-table td");
  // A name of `named` has its button already.
  if (!cell || cell.querySelector(".named")) return null;
  const around = [target.closest(".name"), target.closest(".two > *")].filter(Boolean);
  const names = around.length ? around : [...target.querySelectorAll(CUT)];
  return names.find(isCut) ?? (isCut(cell) ? cell : null);
}

function show(name) {
  const cell = name.closest("td");
  if (shown?.name === name) return;
  hide();
  const text = name.textContent;
  name.title = text;
  const button = copyIcon(text, text);
  cell.append(button);
  shown = { name, cell, button };
}

function hide() {
  shown?.button.remove();
  shown = null;
}

export function startCutNames() {
  document.addEventListener("pointerover", ({ target }) => {
    if (shown?.cell.contains(target)) return;
    const name = cutName(target);
    if (name) show(name);
    else if (!shown?.cell.contains(document.activeElement)) hide();
  });
  document.addEventListener("focusin", ({ target }) => {
    if (shown?.cell.contains(target)) return;
    const name = cutName(target);
    if (name) show(name);
    else hide();
  });
}
