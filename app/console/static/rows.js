// Rows of lists: keys that move and tick, all rows of a page, all that match its filter, and a focus that outlives a refresh.
(() => {
  "use strict";

  const FIELDS = "input:not([type=checkbox]), textarea, select, [contenteditable], dialog";
  const LIST = "te_console_list"; // the rows of the list that one came from
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const form = () => document.getElementById("chosen");
  const boxes = () => all("tbody input[form=chosen]");
  const main = (row) => row.querySelector("a.id[href]") || row.querySelector("a[href], summary, button");
  const rows = () => all("main tbody tr").filter((row) => row.offsetParent && main(row));
  const here = () => document.activeElement?.closest("main tbody tr");
  const say = (text) => (document.getElementById("say").textContent = text);
  const counted = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;

  let isMatching = false; // all that match the filter are meant, not only the ticked rows
  let anchor = ""; // id of the row that was ticked last

  function move(step) {
    const list = rows();
    if (!list.length) return;
    const at = list.indexOf(here());
    const row = list[at < 0 ? 0 : Math.min(Math.max(at + step, 0), list.length - 1)];
    main(row).focus();
    row.scrollIntoView({ block: "nearest" });
  }

  // --- Ticks.

  function show() {
    if (!form()) return;
    const ticked = boxes().filter((box) => box.checked).length;
    const isAll = ticked > 0 && ticked === boxes().length;
    isMatching = isMatching && isAll;
    for (const box of all("[data-all]")) {
      box.checked = isAll;
      box.indeterminate = ticked > 0 && !isAll;
    }
    form().querySelector("[data-count]").textContent = isMatching ? "All that match the filter:" : ticked ? `${counted(ticked, "ticked row")}:` : "The ticked rows:";
    form().querySelector("[data-matching-all]").hidden = !isAll || isMatching;
    return isMatching ? "All that match the filter are chosen." : isAll ? `All ${counted(ticked, "row")} of this page are ticked. All that match the filter can be chosen below the list.` : `${counted(ticked, "row")} ticked.`;
  }
  function tick(row, isRange) {
    const box = row?.querySelector("input[form=chosen]");
    if (!box) return;
    const list = boxes();
    const from = list.indexOf(document.getElementById(anchor)?.querySelector("input[form=chosen]"));
    const at = list.indexOf(box);
    if (isRange && from >= 0) {
      list.slice(Math.min(from, at), Math.max(from, at) + 1).forEach((each) => (each.checked = list[from].checked));
    } else {
      box.checked = !box.checked;
      anchor = row.id;
    }
    say(show());
  }

  // --- Places of a list, for the page of one of its rows.

  // A browser may refuse all storage.
  function stored(use) {
    try {
      return use(sessionStorage);
    } catch {
      return null;
    }
  }
  function remember(row) {
    const paths = all("tr", row.parentElement).map((each) => main(each)?.getAttribute("href")).filter(Boolean);
    stored((storage) => storage.setItem(LIST, JSON.stringify(paths)));
  }
  function neighbour(step) {
    const paths = JSON.parse(stored((storage) => storage.getItem(LIST)) || "[]");
    const at = paths.findIndex((path) => path.split("?")[0] === location.pathname);
    if (at < 0) return;
    if (paths[at + step]) location.assign(paths[at + step]);
    else say(step > 0 ? "This is the last row of the list." : "This is the first row of the list.");
  }
  // Single letters bring one to a button, and press nothing that acts.
  function act(verb) {
    const button = form()?.querySelector(`[value=${verb}]`);
    if (button) return boxes().some((box) => box.checked) ? button.click() : say("Tick a row first: x.");
    const own = document.querySelector(`main form[action$="/${verb}"] button`);
    const menu = own?.closest("details.menu");
    if (menu) menu.open = true;
    own?.focus();
  }

  const KEYS = {
    j: () => move(1),
    k: () => move(-1),
    x: () => tick(here()),
    X: () => tick(here(), true),
    "[": () => neighbour(-1),
    "]": () => neighbour(1),
    r: () => act("retry"),
    c: () => act("cancel"),
  };
  let isAfterG = false; // then the letter is that of a page
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest(FIELDS)) return;
    const isOfPage = isAfterG;
    isAfterG = event.key === "g";
    if (isOfPage || !KEYS[event.key] || document.documentElement.dataset.letters === "off") return;
    event.preventDefault();
    KEYS[event.key]();
  });

  document.addEventListener("click", (event) => {
    const row = event.target.closest("main tbody tr");
    if (row && event.target.closest("a[href]")) remember(row);
    const box = event.target.closest("tbody input[form=chosen]");
    if (box && event.shiftKey) {
      box.checked = !box.checked; // `tick` does it
      tick(row, true);
    } else if (box) {
      anchor = row.id;
    }
    if (event.target.closest("[data-matching-all]")) {
      isMatching = true;
      form().querySelector("button:not([type])").focus();
      say(show());
    }
  });
  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-all]")) boxes().forEach((box) => (box.checked = event.target.checked));
    if (event.target.matches("[data-all], tbody input[form=chosen]")) say(show());
  });
  document.addEventListener("submit", (event) => {
    if (event.target.id !== "chosen" || !isMatching) return;
    event.preventDefault();
    location.assign(event.submitter.dataset.matching);
  });

  // --- A refresh that takes the focused row away leaves the focus at its place.

  let place = null;
  document.addEventListener("htmx:before:swap", () => (place = here() && { at: rows().indexOf(here()), id: here().id }));
  document.addEventListener("htmx:after:swap", () => {
    show();
    if (!place || document.activeElement !== document.body) return;
    const list = rows();
    if (list.length) main(list[Math.min(place.at, list.length - 1)]).focus();
    say("The row has left the list.");
  });
  show();
})();
