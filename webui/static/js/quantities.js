// Byte rates, sizes, durations and other quantities as a person types them. broker/common/quantities.py has the grammar
// and does the same; tests/common/quantities.json has the cases of both.

export const MAX_LENGTH = 64;

const EXPECTED = {
  "byte-rate": "enter a number with a unit, such as 10 MB",
  size: "enter a number with a unit, such as 10 MB",
  duration: "enter a duration, such as 5 min",
  percent: "enter a percentage, such as 50 %",
  rate: "enter a number, such as 5",
  count: "enter a whole number",
};
const PREFIXES = ["k", "m", "g", "t", "p"];
const BYTES = new Map([["", 1n], ["b", 1n], ["byte", 1n], ["bytes", 1n], ...PREFIXES.flatMap((prefix, index) => {
  const [decimal, binary] = [1000n ** BigInt(index + 1), 1024n ** BigInt(index + 1)];
  return [[prefix, decimal], [`${prefix}b`, decimal], [`${prefix}i`, binary], [`${prefix}ib`, binary]];
})]);
const TIMES = new Map([["", 1n], ["ms", 1n], ["s", 1000n], ["sec", 1000n], ["m", 60_000n], ["min", 60_000n], ["h", 3_600_000n], ["d", 86_400_000n],
  ...[["second", 1000n], ["minute", 60_000n], ["hour", 3_600_000n], ["day", 86_400_000n], ["week", 604_800_000n]].flatMap(([word, factor]) => [[word, factor], [`${word}s`, factor]])]);
const NONE = new Map([["", 1n]]);
const UNITS = { "byte-rate": BYTES, size: BYTES, duration: TIMES, percent: new Map([["", 1n], ["%", 1n]]), rate: NONE, count: NONE };
const NAMED = { "byte-rate": "B, kB, MB, GB, TB, PB, KiB, MiB, GiB, TiB or PiB", size: "B, kB, MB, GB, TB, PB, KiB, MiB, GiB, TiB or PiB", duration: "ms, s, min, h or d" };

const GAP = "[ \\t\\u00a0\\u202f]*";
const SEPARATOR = "[ \\u00a0\\u202f_]";
const NUMBER = `(?:[0-9]{1,3}(?:${SEPARATOR}[0-9]{3})+|[0-9]+)(?:\\.[0-9]+)?|\\.[0-9]+`;
const QUANTITY = new RegExp(`^${GAP}(${NUMBER})${GAP}([a-z%]*?)${GAP}(/s(?:ec)?|ps)?${GAP}$`, "i");
const PART = new RegExp(`^(${NUMBER})${GAP}([a-z]*)${GAP}`, "i");
const UNITLESS = /^-?[0-9]*(?:\.[0-9]+)?(?:e[-+]?[0-9]+)?$/i;
const SIGNED = new RegExp(`^${GAP}[-+\\u2212]${GAP}[0-9.]`);
const AROUND = new RegExp(`^${GAP}|${GAP}$`, "g");
const SEPARATORS = new RegExp(SEPARATOR, "g");
const WITH_COMMA = new RegExp(`[0-9](?:[0-9.,]|${SEPARATOR}(?=[0-9]))*`);
const COMMAS = /^0*([0-9]+(?:,[0-9]+)+(?:\.[0-9]+)?)$/;

class Unreadable extends Error {}

/** Parses a quantity: {value}, or {error} that says what to write instead. */
export function readQuantity(quantity, text) {
  try {
    return { value: read(quantity, text) };
  } catch (problem) {
    if (problem instanceof Unreadable) return { error: problem.message };
    throw problem;
  }
}

/** The value of a setting, whose key ends with its unit: {value}, a string, or {error}. */
export function readConfig(key, text) {
  const quantity = key.endsWith(".ms") ? "duration" : key.endsWith(".bytes") ? "size" : null;
  if (quantity === null || UNITLESS.test(text)) return { value: text };
  const { value, error } = readQuantity(quantity, text);
  return error ? { error } : { value: String(BigInt(value)) };
}

function read(quantity, text) {
  if ([...text].length > MAX_LENGTH) throw new Unreadable(EXPECTED[quantity]);
  if (text.includes(",")) throw new Unreadable(readings(text));
  if (SIGNED.test(text)) throw new Unreadable("enter a number without a sign");
  const value = quantity === "duration" ? duration(text) : one(quantity, text);
  if (value >= 2 ** 63) throw new Unreadable("enter a value below 2⁶³");
  return value;
}

function one(quantity, text) {
  const found = QUANTITY.exec(text);
  if (!found || (found[3] && quantity !== "byte-rate" && quantity !== "rate")) throw new Unreadable(EXPECTED[quantity]);
  const [number, factor] = [plain(found[1]), factorOf(quantity, found[2])];
  return quantity === "percent" || quantity === "rate" ? Number(number) : Number(whole(number, factor));
}

function duration(text) {
  let rest = text.replace(AROUND, "");
  const parts = [];
  while (rest !== "") {
    const found = PART.exec(rest);
    if (!found) throw new Unreadable(EXPECTED.duration);
    parts.push([plain(found[1]), factorOf("duration", found[2])]);
    if (found[2] === "" && (parts.length > 1 || found[0].length < rest.length)) throw new Unreadable(EXPECTED.duration);
    rest = rest.slice(found[0].length);
  }
  const isOrdered = parts.every(([, factor], index) => index === 0 || parts[index - 1][1] > factor);
  if (parts.length === 0 || !isOrdered || (parts.length > 1 && parts.some(([number]) => number.includes(".")))) throw new Unreadable(EXPECTED.duration);
  return Number(parts.reduce((sum, [number, factor]) => sum + whole(number, factor), 0n));
}

function plain(number) {
  return number.replace(SEPARATORS, "");
}

function factorOf(quantity, unit) {
  const factor = UNITS[quantity].get(unit.toLowerCase());
  if (factor !== undefined) return factor;
  throw new Unreadable(NAMED[quantity] ? `unknown unit ${unit}: expected ${NAMED[quantity]}` : EXPECTED[quantity]);
}

/** Multiplies exactly, and rounds half up. */
function whole(number, factor) {
  const [first, fraction = ""] = number.split(".");
  const scale = 10n ** BigInt(fraction.length);
  const scaled = BigInt(first + fraction) * factor;
  if (factor === 1n && scaled % scale) throw new Unreadable("enter a whole number");
  return (2n * scaled + scale) / (2n * scale);
}

/** The message for a number with a comma: what it may mean. */
function readings(text) {
  const typed = WITH_COMMA.exec(text)?.[0];
  const number = plain(typed ?? "");
  if (!COMMAS.test(number)) return "a comma is not allowed";
  const without = number.replaceAll(",", "").replace(/^0+(?=[0-9])/, "");
  const [first, second] = number.split(",");
  const point = `${first.replace(/^0+(?=[0-9])/, "")}.${second}`.replace(/\.?0+$/, "");
  if (number.indexOf(",") !== number.lastIndexOf(",") || number.includes(".") || point === without) return `${typed} has a comma; write ${without}`;
  return `${typed} may mean ${without} or ${point}; write ${without} or ${point}`;
}
