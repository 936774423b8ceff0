// Apply the stored theme. Without one the page follows the system.
try {
  const chosen = localStorage.getItem("noetl.theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // The browser blocks storage: the page follows the system.
}
