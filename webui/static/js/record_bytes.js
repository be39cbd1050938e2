// Bytes of keys, values and headers as text, JSON or hexadecimal. They come from any producer, so they are only ever
// inserted as text, and characters that cannot be seen are written out.

import { h } from "./dom.js";
import { bytes as sizeText, group } from "./units.js";

const LINE = 16;
const PREVIEW = 160;

// Controls except line ends and tabs, and invisible or bidirectional formatting characters.
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\ufff9-\ufffb]/gu;

/** The shown bytes of `part`, {text, base64}. */
function bytesOf({ text, base64 }) {
  return text === null ? Uint8Array.from(atob(base64), (character) => character.charCodeAt(0)) : new TextEncoder().encode(text);
}

/** Sixteen bytes a line: position, hexadecimal, ASCII. */
export function hexText(part) {
  const all = bytesOf(part);
  const lines = [];
  for (let at = 0; at < all.length; at += LINE) {
    const some = [...all.subarray(at, at + LINE)];
    const codes = some.map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
    const letters = some.map((byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : ".")).join("");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${codes.padEnd(LINE * 3 - 1)}  ${letters}`);
  }
  return lines.join("\n");
}

function jsonText({ text, is_truncated: isCut }) {
  if (text === null || isCut || !/^\s*[[{]/.test(text)) return null;
  try {
    JSON.parse(text);
  } catch {
    return null;
  }
  return indented(text);
}

// Not by JSON.stringify of the parsed value, which changes large numbers and drops repeated keys.
function indented(text) {
  let depth = 0;
  let isString = false;
  let out = "";
  const line = () => `\n${"  ".repeat(Math.min(depth, 40))}`;
  for (let at = 0; at < text.length; at += 1) {
    const one = text[at];
    if (isString) {
      out += one;
      if (one === "\\") out += text[(at += 1)];
      else if (one === '"') isString = false;
    } else if (one === '"') {
      isString = true;
      out += one;
    } else if ("{[".includes(one)) {
      const rest = /^\s*[}\]]/.exec(text.slice(at + 1, at + 200));
      if (rest) {
        out += one + rest[0].trim();
        at += rest[0].length;
      } else {
        depth += 1;
        out += one + line();
      }
    } else if ("}]".includes(one)) {
      depth -= 1;
      out += line() + one;
    } else if (one === ",") out += one + line();
    else if (one === ":") out += ": ";
    else if (!/\s/.test(one)) out += one;
  }
  return out;
}

/** {text, kind}: the bytes in a format; a format that does not fit falls back to text, then to hexadecimal. */
export function written(part, format) {
  if (format === "auto" && part.decoded !== null) return { text: part.decoded, kind: "decoded" };
  if (format === "json" || format === "auto") {
    const text = jsonText(part);
    if (text !== null) return { text, kind: "JSON" };
  }
  if (format !== "hex" && part.text !== null) return { text: part.text, kind: "text" };
  return { text: hexText(part), kind: "hexadecimal" };
}

/** The first characters in one line, for a table. */
export function preview(part, format) {
  if (part === null) return h("span.quiet", "null");
  const { text, kind } = written(part, format);
  if (text === "") return h("span.quiet", "empty");
  const line = kind === "hexadecimal" ? hexLine(part) : text.slice(0, PREVIEW * 4).replace(/\s+/g, " ").slice(0, PREVIEW);
  return h("span.mono.line", seen(line), line.length < text.length && part.size > line.length && "…");
}

function hexLine(part) {
  return [...bytesOf(part).subarray(0, 24)].map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
}

/** The bytes in full, as far as they are shown, with a link to the whole. */
export function whole(label, part, format, link) {
  if (part === null) return h("div.bytes", h("h3", label), h("p.quiet", "null"));
  const { text, kind } = written(part, format);
  return h("div.bytes",
    h("h3", label, h("span.quiet", ` ${kind}, ${sizeText(part.size)}`)),
    part.error && h("p.field-error", part.error),
    h("pre.content", { tabindex: "0", "aria-label": label }, text === "" ? h("span.quiet", "empty") : seen(text)),
    part.is_truncated && h("p.note", { data: { kind: "watch" } }, `Only the beginning of ${group(part.size)} bytes is shown.`),
    link && h("a.button.small", { href: link, download: true }, `Download the ${label.toLowerCase()}`));
}

/** The text, with characters that cannot be seen written out. */
export function seen(text) {
  const parts = [];
  let end = 0;
  for (const { 0: found, index } of text.matchAll(UNSEEN)) {
    if (index > end) parts.push(text.slice(end, index));
    parts.push(h("span.unseen", { title: "A character that cannot be seen" }, `U+${found.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`));
    end = index + found.length;
  }
  parts.push(text.slice(end));
  return parts;
}
