// Saved views: names for filters of a list, which this browser keeps. The address of a view is the link to share.
(() => {
  "use strict";

  const MOST = 20;
  const PLACES = ["after", "until", "cursor"]; // a place in a list is no part of a view
  const box = document.querySelector("[data-views]");
  if (!box) return;
  const key = `te_console_views:${location.pathname}`;
  const list = box.querySelector("ul");
  const form = box.querySelector("form");

  function stored() {
    try {
      const found = JSON.parse(localStorage.getItem(key));
      return Array.isArray(found) ? found : [];
    } catch {
      return [];
    }
  }
  function keep(views) {
    localStorage.setItem(key, JSON.stringify(views.slice(0, MOST)));
    show();
  }
  function query() {
    const given = [...new URLSearchParams(location.search)].filter(([name, value]) => value && !PLACES.includes(name));
    return `?${new URLSearchParams(given)}`;
  }

  function row({ name, query }) {
    const item = document.createElement("li");
    const link = document.createElement("a");
    const remove = document.createElement("button");
    link.href = location.pathname + query;
    link.textContent = name;
    remove.type = "button";
    remove.className = "plain";
    remove.textContent = "✕";
    remove.setAttribute("aria-label", `Remove the view ${name}`);
    remove.addEventListener("click", () => keep(stored().filter((each) => each.name !== name)));
    item.append(link, " ", remove);
    return item;
  }
  function show() {
    list.replaceChildren(...stored().map(row));
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const name = form.elements.name.value.trim();
    if (name) keep([{ name, query: query() }, ...stored().filter((each) => each.name !== name)]);
    form.reset();
  });
  box.hidden = false;
  show();
})();
