// The live feed: inserts the rows and figures that the server renders.
"use strict";
(() => {
  const live = document.getElementById("live");
  const rows = document.getElementById("live-rows");
  const state = document.getElementById("live-state");
  const pause = document.getElementById("pause");
  const limit = Number(live.dataset.limit);
  const show = live.dataset.show;
  let after = live.dataset.after;
  let source = null;
  let moved = false;

  // The rates are those of the loaded page: fetch it again every few seconds while the watermark moves.
  const RATES_MS = 10_000;
  const refresh = async () => {
    const rates = document.getElementById("rates");
    if (!moved || rates.contains(document.activeElement)) return;
    moved = false;
    try {
      const answer = await fetch(location.href);
      if (!answer.ok) return;
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      rates.replaceChildren(...page.getElementById("rates").childNodes);
    } catch {
      moved = true;
    }
  };

  const parsed = (html) => {
    const template = document.createElement("template");
    template.innerHTML = html;
    return template.content;
  };

  const add = (event) => {
    const added = parsed(event.data).querySelectorAll("tr");
    after = event.lastEventId;
    for (const row of added) row.classList.add("new");
    rows.prepend(...added);
    while (rows.children.length > limit) rows.lastElementChild.remove();
    document.getElementById("none").hidden = true;
    document.getElementById("some").hidden = false;
    const newest = added[0].dataset.announce;
    document.getElementById("announced").textContent =
      added.length === 1 ? `New: ${newest}` : `${added.length} new verdicts; the newest: ${newest}`;
  };

  const start = () => {
    source = new EventSource(`/feed?after=${after}&show=${show}`);
    source.addEventListener("open", () => { state.textContent = "Live."; });
    source.addEventListener("verdicts", add);
    source.addEventListener("position", (event) => {
      document.getElementById("position").replaceChildren(parsed(event.data));
      moved = true;
    });
    source.addEventListener("warnings", (event) => {
      const warnings = document.getElementById("live-warnings");
      if (warnings === null) return;
      warnings.replaceChildren(...parsed(event.data).querySelectorAll("tr"));
      document.getElementById("no-warning").hidden = true;
      document.getElementById("some-warnings").hidden = false;
    });
    source.addEventListener("error", () => {
      const gone = source.readyState === EventSource.CLOSED;
      state.textContent = gone ? "Live updates are off; reload the page." : "Disconnected; reconnecting.";
    });
  };

  pause.addEventListener("click", () => {
    const paused = pause.getAttribute("aria-pressed") === "true";
    pause.setAttribute("aria-pressed", String(!paused));
    pause.textContent = paused ? "Pause" : "Resume";
    if (paused) {
      start();
    } else {
      source.close();
      state.textContent = "Paused.";
    }
  });

  pause.hidden = false;
  start();
  setInterval(refresh, RATES_MS);
})();
