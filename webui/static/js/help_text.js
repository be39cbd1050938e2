// Help texts of settings as plain words: they are written for documents, with links, code marks or HTML.

const FILE = /\s*\((?:\[[\w./-]+\.md\]\([^)\s]*\)|[\w./-]+\.md)\)/g;
const SENTENCES = /(?<=[.;]) (?=[A-Z])/;
const LARGEST = / to 9223372036854775807\b/g;
const LINK = /\[([^\]]+)\]\([^)\s]*\)/g;
const TAG = /<\/?(?:code|p|i|b|br|a|ul|li|em|strong)\b[^<>]{0,200}>/gi;

/** The text without marks: `[words](file.md)` is words, and a reference to a file alone is left out. */
export function helpText(text) {
  const plain = text.replace(FILE, "").replace(LINK, "$1").replace(LARGEST, " on").replaceAll("`", "").replace(TAG, " ").replace(/\s+/g, " ").replace(/ ([.,;:])/g, "$1").trim();
  return plain.split(SENTENCES).filter((sentence) => !/\w\.md\b/.test(sentence)).join(" ");
}
