// The theme and the density that this browser chose, set before the first paint: a script of the head, no module.

for (const [name, values] of [["theme", ["light", "dark"]], ["density", ["comfortable"]]]) {
  try {
    const value = localStorage.getItem(`weir-${name}`);
    if (values.includes(value)) document.documentElement.dataset[name] = value;
  } catch {
    // Without storage the system decides.
  }
}
