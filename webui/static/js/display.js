// The switches of theme and density, kept in this browser. js/theme.js reads them at the next page.

const root = document.documentElement;

/** `name`: theme or density; "" is the usual one. */
export function setDisplay(name, value) {
  try {
    if (value) localStorage.setItem(`weir-${name}`, value);
    else localStorage.removeItem(`weir-${name}`);
  } catch {
    // It holds for this page only.
  }
  show(name, value);
}

function show(name, value) {
  if (value) root.dataset[name] = value;
  else delete root.dataset[name];
  const select = document.getElementById(name);
  if (select) select.value = value;
}

/** Lets the switches of the page work, and follows those of other pages of this browser. */
export function startDisplay() {
  for (const name of ["theme", "density"]) {
    show(name, root.dataset[name] ?? "");
    document.getElementById(name)?.addEventListener("change", (event) => setDisplay(name, event.target.value));
  }
  window.addEventListener("storage", ({ key, newValue }) => {
    if (key === "weir-theme" || key === "weir-density") show(key.slice(5), newValue ?? "");
  });
}
