// Names that somebody else chose: characters that cannot be seen are written out, so that two names that look alike
// are told apart.

// Controls, invisible and bidirectional formatting characters, spaces other than the usual one.
const UNSEEN = /[\u0000-\u001f\u007f-\u00a0\u00ad\u061c\u115f\u1160\u1680\u180e\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\u3164\ufeff\ufff9-\ufffb]|^ +| +$| {2,}/gu;

/** [{text, hidden}]: `hidden` describes a text that stands for characters which cannot be seen. */
export function visibleParts(name) {
  const parts = [];
  let end = 0;
  for (const { 0: found, index } of name.matchAll(UNSEEN)) {
    if (index > end) parts.push({ text: name.slice(end, index), hidden: "" });
    parts.push(found.startsWith(" ") ? { text: "␣".repeat(found.length), hidden: spaces(found.length) } : { text: code(found), hidden: "A character that cannot be seen" });
    end = index + found.length;
  }
  if (end < name.length) parts.push({ text: name.slice(end), hidden: "" });
  return parts;
}

/** The same as text, for labels and messages. */
export function visibleText(name) {
  return visibleParts(name).map(({ text }) => text).join("");
}

/** The name as one segment of a path, where `..` and slashes would be misread even if percent-encoded (webui.path_names). */
export function inPath(name) {
  return encodeURIComponent(name.replace(/[~/]|^\.{1,2}$/g, (found) => [...found].map((one) => `~${one.charCodeAt(0).toString(16)}`).join("")));
}

/** The name of the thing of which this page is, whose address is `prefix` and the name. */
export function nameOfPage(prefix) {
  const given = decodeURIComponent(location.pathname.slice(prefix.length));
  return given.replace(/(?:~[0-9a-f]{2})+/gi, (bytes) => {
    try {
      return decodeURIComponent(bytes.replaceAll("~", "%"));
    } catch {
      return bytes;
    }
  });
}

export function topicPage(name, tab = "") {
  return `/topics/${inPath(name)}${tab && `?tab=${tab}`}`;
}

export function groupPage(id, tab = "") {
  return `/groups/${inPath(id)}${tab && `?tab=${tab}`}`;
}

function spaces(count) {
  return count === 1 ? "A space" : `${count} spaces`;
}

function code(character) {
  return `U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
}
