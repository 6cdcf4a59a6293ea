// Palette: Ctrl-K opens all pages by a part of their name; any other text is searched for.
(() => {
  "use strict";

  const dialog = document.getElementById("palette");
  if (!dialog) return;
  const field = dialog.querySelector("input");
  const links = [...dialog.querySelectorAll("a")];
  const note = dialog.querySelector("[role=status]");
  const shown = () => links.filter((link) => !link.parentElement.hidden);

  function filter() {
    const words = field.value.toLowerCase().split(/\s+/);
    for (const link of links) link.parentElement.hidden = !words.every((word) => link.textContent.toLowerCase().includes(word));
    const [first] = shown();
    note.textContent = first ? `Enter opens ${first.textContent}.` : "Enter searches for this text.";
  }

  document.addEventListener("keydown", (event) => {
    if (!(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey || event.key !== "k") return;
    event.preventDefault();
    if (dialog.open) return dialog.close();
    field.value = "";
    filter();
    dialog.showModal();
  });
  field.addEventListener("input", filter);
  dialog.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const places = [field, ...shown()];
    const at = places.indexOf(document.activeElement);
    places[(at + step + places.length) % places.length].focus();
  });
  // Without a page of that name, the form searches by itself.
  field.form.addEventListener("submit", (event) => {
    const [first] = shown();
    if (!first) return;
    event.preventDefault();
    first.click();
  });
})();
