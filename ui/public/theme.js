// The theme that was chosen; without a choice the system's.
try {
  const chosen = localStorage.getItem("noetl.theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // Storage may be shut off: then the system's theme it is.
}
