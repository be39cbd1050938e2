// Partitions as a person types them.

/** Parses "0, 2-4": {list} or {error}; empty is every partition. */
export function readPartitions(typed) {
  const found = new Set();
  for (const part of typed.split(",").map((each) => each.trim()).filter(Boolean)) {
    const range = /^(\d{1,9})(?:\s*-\s*(\d{1,9}))?$/.exec(part);
    if (!range) return { error: `${part} is no partition: enter numbers such as 0, 2-4.` };
    const [first, last] = [Number(range[1]), Number(range[2] ?? range[1])];
    if (last < first || last - first >= 1000) return { error: `${part} is no range of at most 1,000 partitions.` };
    for (let index = first; index <= last; index += 1) found.add(index);
  }
  return { list: [...found].sort((one, other) => one - other) };
}
