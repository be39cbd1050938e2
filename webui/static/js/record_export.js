// Records as a file: a JSON object a line, or CSV for spreadsheets.

export const MOST_EXPORTED = 10_000;
const MEDIA = { ndjson: "application/x-ndjson", csv: "text/csv" };
const COLUMNS = ["partition", "offset", "timestamp", "key", "value", "headers", "is_truncated"];

/** Text as it is; other bytes as base64, which NDJSON says. */
function bytesOf(part) {
  if (part === null) return null;
  return part.text === null ? { base64: part.base64 } : part.text;
}

function plain(record) {
  const { partition, offset, timestamp_ms: timestamp, key, value, headers } = record;
  const isCut = Boolean(key?.is_truncated || value?.is_truncated || headers.some((each) => each.value?.is_truncated));
  const more = value !== null && value.decoded !== null && value.decoded !== undefined ? { decoded: value.decoded } : {};
  return { partition, offset, timestamp, key: bytesOf(key), value: bytesOf(value), ...more, headers: headers.map((each) => [bytesOf(each.name), bytesOf(each.value)]), is_truncated: isCut };
}

/** A spreadsheet takes a cell that begins so for a formula: an apostrophe before it makes it text. */
function cell(value) {
  const text = value === null ? "" : typeof value === "object" ? JSON.stringify(value) : String(value);
  const safe = typeof value === "number" ? text : text.replace(/^(?=[=+\-@\t\r])/, "'");
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

export function exportText(kind, records) {
  const rows = records.map(plain);
  if (kind === "ndjson") return rows.map((each) => `${JSON.stringify(each)}\n`).join("");
  return [COLUMNS, ...rows.map((each) => COLUMNS.map((name) => each[name]))].map((cells) => `${cells.map(cell).join(",")}\r\n`).join("");
}

export function save(name, kind, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: MEDIA[kind] }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
