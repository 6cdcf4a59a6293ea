// The console's own script: everything works without it, except what follows changes by itself.
(() => {
  "use strict";

  const EVERY_MS = 30_000; // a region is read again after this time in any case
  const POLL_MS = 10_000; // without the pulse
  const HIDDEN_MS = 5_000; // until a hidden page closes its pulse: a browser has few connections to a host
  const SPREAD_MS = 300; // so that viewers do not ask together
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const root = document.documentElement;
  const byId = (id) => document.getElementById(id);

  // --- Regions: a change, or the time, makes htmx read a part of the page again.

  let isPaused = false;
  let pulse = null;
  let isMissing = false; // the pulse broke, so changes may have gone unnoticed
  let openedAt = -POLL_MS; // of the last pulse
  let trouble = ""; // of the last read of a region
  let readAt = Date.now();
  const reads = new Map(); // instants of the last read by the id of a region
  const waiting = new Set(); // names of changes that came while the reader was busy
  const isBusy = () =>
    isPaused || document.hidden || !getSelection().isCollapsed || document.querySelector("details.menu[open], tbody input:checked");

  function refresh(names) {
    if (isBusy()) return (names || []).forEach((name) => waiting.add(name));
    if (!names) readAt = Date.now();
    for (const region of all("[data-region]")) {
      const live = (region.dataset.live || "").split(" ");
      if (names && !names.some((name) => live.includes(name))) continue;
      setTimeout(() => region.isConnected && htmx.trigger(region, "refresh"), Math.random() * SPREAD_MS);
    }
  }

  // The pulse names what has changed. A region that it misses is read within EVERY_MS in any case.
  function listen() {
    if (pulse || document.hidden || !document.querySelector("[data-live]")) return;
    if (Date.now() - openedAt < POLL_MS) return; // a refused pulse is opened again, but not each second
    openedAt = Date.now();
    pulse = new EventSource("/console/pulse");
    pulse.addEventListener("changed", (event) => refresh(event.data.split(" ")));
    pulse.addEventListener("open", () => {
      if (isMissing) readAt = -EVERY_MS; // for `beat`, while the reader is busy
      if (isMissing) refresh();
      isMissing = false;
      show();
    });
    // A browser connects again by itself, but not after a refusal; `beat` opens another pulse then.
    pulse.addEventListener("error", () => {
      if (pulse?.readyState === EventSource.CLOSED) pulse = null;
      if (!isMissing) refresh();
      isMissing = true;
      show();
    });
  }
  function follow() {
    if (!document.hidden) {
      openedAt = -POLL_MS;
      listen();
      refresh();
    } else {
      setTimeout(() => {
        if (document.hidden) pulse = pulse?.close();
      }, HIDDEN_MS);
    }
  }
  function beat() {
    tick();
    if (waiting.size && !isBusy()) {
      refresh([...waiting]);
      waiting.clear();
    }
    if (Date.now() - readAt >= (pulse?.readyState === EventSource.OPEN ? EVERY_MS : POLL_MS)) {
      listen();
      refresh();
    }
  }

  // The browser's cache must not answer: it would join an old body to a new policy, whose nonce differs.
  document.addEventListener("htmx:config:request", (event) => {
    const tag = event.target.dataset?.etag;
    if (tag && event.target.hasAttribute("data-region")) event.detail.ctx.request.headers["If-None-Match"] = tag;
  });
  document.addEventListener("htmx:after:request", (event) => {
    const region = event.target.closest?.("[data-region]");
    if (!region) return;
    const status = event.detail.ctx.response.status;
    trouble = status === 429 ? "too many requests" : status >= 400 ? "not answering" : "";
    if (!trouble) reads.set(region.id, Date.now());
    mark(region);
    show();
  });
  document.addEventListener("htmx:error", (event) => {
    trouble = "not answering";
    mark(event.target.closest?.("[data-region]"));
    show();
  });
  // A region that cannot be read keeps its old content, and says from when it is.
  function mark(region) {
    region?.classList.toggle("stale", trouble !== "");
    region?.setAttribute("data-as-of", clock(reads.get(region.id) ?? performance.timeOrigin));
  }
  function clock(at) {
    try {
      return new Date(at).toLocaleTimeString("en-GB", { timeZone: root.dataset.zone });
    } catch {
      return new Date(at).toLocaleTimeString("en-GB"); // a browser may be older than the zone
    }
  }
  document.addEventListener("htmx:after:swap", () => prepare());

  function show() {
    const label = byId("live");
    if (!label || !document.querySelector("[data-region]")) return;
    label.hidden = false;
    const isLive = pulse?.readyState === EventSource.OPEN;
    label.className = "live " + (trouble ? "bad" : isPaused ? "off" : isLive ? "good" : "");
    label.textContent = trouble || (isPaused ? "paused" : isLive ? "live" : `every ${POLL_MS / 1000} s`);
  }

  function pause() {
    isPaused = !isPaused;
    show();
    say(isPaused ? "The page no longer follows changes." : "The page follows changes.");
    refresh();
  }

  function say(text) {
    const place = byId("say");
    if (place) place.textContent = text;
  }

  // --- Distances of instants grow by themselves.

  const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  function ago(at) {
    const seconds = (Date.now() - Date.parse(at)) / 1000;
    if (Math.abs(seconds) < 1) return "now";
    const [size, unit] = UNITS.find(([size]) => Math.abs(seconds) >= size);
    const text = `${Math.floor(Math.abs(seconds) / size)} ${unit}`;
    return seconds > 0 ? `${text} ago` : `in ${text}`;
  }
  function tick() {
    for (const time of all("time[data-ago]")) {
      const text = ago(time.dateTime);
      if (time.textContent !== text) time.textContent = text;
    }
  }

  // --- Light and dark.

  function switchTheme() {
    const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = isDark ? "light" : "dark";
    document.cookie = `te_console_theme=${root.dataset.theme}; path=/console; max-age=31536000; samesite=strict`;
  }

  // --- Keys: single letters, never in fields. `g` and a letter open a page.

  // A browser may refuse storage: then the choice lasts as long as the page.
  function stored(use) {
    try {
      return use(localStorage);
    } catch {
      return null;
    }
  }
  const letters = byId("letters");
  if (letters) {
    root.dataset.letters = stored((storage) => storage.getItem("te_console_letters")) || "on";
    letters.checked = root.dataset.letters === "on";
    letters.addEventListener("change", () => {
      root.dataset.letters = letters.checked ? "on" : "off";
      stored((storage) => storage.setItem("te_console_letters", root.dataset.letters));
    });
  }

  const KEYS = { t: switchTheme, p: pause, "/": () => byId("find")?.focus(), "?": () => byId("keys")?.showModal?.() };
  let isGoing = false;
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") all("details.menu[open]").forEach((menu) => (menu.open = false));
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input:not([type=checkbox]), textarea, select, [contenteditable]") || root.dataset.letters === "off") return;
    if (isGoing) {
      isGoing = false;
      document.querySelector(`nav a[data-key="${CSS.escape(event.key)}"]`)?.click();
    } else if (event.key === "g") {
      isGoing = true;
      setTimeout(() => (isGoing = false), 1500);
    } else if (KEYS[event.key]) {
      event.preventDefault();
      KEYS[event.key]();
    }
  });

  document.addEventListener("click", (event) => {
    for (const menu of all("details.menu[open]")) if (!menu.contains(event.target)) menu.open = false;
    if (event.target.closest("[data-keys]")) KEYS["?"]();
    const copy = event.target.closest(".copy");
    if (copy) {
      navigator.clipboard?.writeText(copy.dataset.copy ?? copy.parentElement.querySelector("pre").textContent);
      copy.textContent = "copied";
    }
  });

  function prepare() {
    for (const button of all(".copy[hidden]")) button.hidden = !navigator.clipboard;
    for (const button of all("[data-own-zone][hidden]")) {
      button.value = Intl.DateTimeFormat().resolvedOptions().timeZone;
      button.textContent = `${button.value}, as this browser`;
      button.hidden = false;
    }
    tick();
  }

  // --- Start.

  prepare();
  show();
  const theme = byId("theme");
  if (theme) {
    theme.hidden = false;
    theme.addEventListener("click", switchTheme);
  }
  document.querySelector(".tabs [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  listen();
  setInterval(beat, 1000);
  document.addEventListener("visibilitychange", follow);

  const retry = byId("retry");
  if (retry) setTimeout(() => location.reload(), 1000 * retry.dataset.retry);

  // A one-time link has its secret behind the #, so that no log has it.
  const link = byId("link-form");
  if (link && location.hash.length > 20) {
    link.elements.link.value = location.hash.slice(1);
    history.replaceState(null, "", location.pathname + location.search);
    link.submit();
  }
})();
