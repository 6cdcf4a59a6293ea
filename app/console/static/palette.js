// Palette: Ctrl-K goes to a page, a button of this page or a name; any other text is searched for.
(() => {
  "use strict";

  const dialog = document.getElementById("palette");
  if (!dialog) return;
  const field = dialog.querySelector("input");
  const note = dialog.querySelector("[role=status]");
  const actions = document.getElementById("palette-actions");
  const names = document.getElementById("palette-names");
  const all = (selector, root = dialog) => [...root.querySelectorAll(selector)];
  const links = () => all("li > a").filter((link) => !link.parentElement.hidden);

  // The names that the service finds come later, match by more than their text, and may be those of an earlier text.
  function filter() {
    const words = field.value.toLowerCase().split(/\s+/);
    const isCurrent = names.querySelector("[data-of]")?.dataset.of === field.value.trim();
    for (const link of all("li > a")) {
      if (names.contains(link)) {
        link.parentElement.hidden = !isCurrent;
        continue;
      }
      const isUnasked = !field.value && actions.contains(link);
      link.parentElement.hidden = isUnasked || !words.every((word) => link.textContent.toLowerCase().includes(word));
    }
    const [first] = links();
    note.textContent = first ? `Enter goes to ${first.querySelector("span")?.textContent ?? first.textContent.trim()}.` : "Enter searches for this text.";
  }

  // A button of the page gets the focus; it is pressed there, where its effect is described.
  function offer(button) {
    const item = document.createElement("li");
    const link = document.createElement("a");
    link.href = "#main";
    link.textContent = button.textContent.trim();
    link.addEventListener("click", (event) => {
      event.preventDefault();
      event.stopPropagation(); // a click outside of a menu closes it
      dialog.close();
      const menu = button.closest("details.menu");
      if (menu) menu.open = true;
      button.focus();
    });
    item.append(link);
    return item;
  }

  document.addEventListener("keydown", (event) => {
    if (!(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey || event.key !== "k") return;
    event.preventDefault();
    if (dialog.open) return dialog.close();
    field.value = "";
    names.replaceChildren();
    actions.replaceChildren(...all("main .actions :is(a, summary, form.inline button)", document).filter((each) => each.offsetParent && !each.closest(".menu-box")).map(offer));
    filter();
    dialog.showModal();
  });
  field.addEventListener("input", filter);
  document.addEventListener("htmx:after:swap", filter);
  dialog.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const places = [field, ...links()];
    const at = places.indexOf(document.activeElement);
    places[(at + step + places.length) % places.length].focus();
  });
  // Without a link, the form searches by itself.
  field.form.addEventListener("submit", (event) => {
    const [first] = links();
    if (!first) return;
    event.preventDefault();
    first.click();
  });
})();
