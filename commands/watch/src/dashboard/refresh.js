// Replaces the page's contents every ten seconds. Without it the page reloads itself.
// Shows the values of a graph that are under the pointer.
"use strict";
(function () {
  const period = 10000;
  const status = document.getElementById("status");
  const same = (element, other) =>
    element.tagName === other.tagName && element.getAttribute("href") === other.getAttribute("href");
  const focusable = (root) => Array.from(root.querySelectorAll("a, button, input, summary, .scroll"));

  let shown = null;
  let last = null;

  function write(plot, text, line) {
    plot.parentElement.querySelector(".readout").textContent = text;
    plot.querySelector("path.marker").setAttribute("d", line);
  }

  function point(event) {
    const { target, clientX, clientY } = event;
    const plot = target && target.closest ? target.closest(".plot[data-values]") : null;
    if (shown && shown !== plot) write(shown, "", "");
    shown = plot;
    last = plot ? { clientX, clientY } : null;
    if (!plot) return;
    const box = plot.querySelector("svg").getBoundingClientRect();
    const values = plot.dataset.values.split("|");
    const step = Math.floor(((clientX - box.left) / box.width) * values.length);
    const place = Math.min(Math.max(step, 0), values.length - 1);
    write(plot, values[place] || "no figures", "M" + (place + 0.5) + " 0V100");
  }

  async function refresh() {
    const main = document.querySelector("main");
    const active = document.activeElement;
    // Nobody loses what is being typed.
    if (document.hidden || (active && active.matches("input"))) return;
    try {
      const answer = await fetch(location.href, { headers: { accept: "text/html" } });
      if (!answer.ok) throw new Error(answer.status + " " + answer.statusText);
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = page.querySelector("main");
      if (!fresh) throw new Error("an answer without contents");
      const place = main.contains(active) ? focusable(main).indexOf(active) : -1;
      const scrolled = Array.from(main.querySelectorAll(".scroll"), (box) => box.scrollLeft);
      main.replaceWith(fresh);
      fresh.querySelectorAll(".scroll").forEach((box, index) => {
        box.scrollLeft = scrolled[index] || 0;
      });
      const next = place < 0 ? null : focusable(fresh)[place];
      if (next && same(next, active)) next.focus({ preventScroll: true });
      document.title = page.title;
      if (last) point({ ...last, target: document.elementFromPoint(last.clientX, last.clientY) });
      if (status.textContent) status.textContent = "";
    } catch (error) {
      const text = "The daemon does not answer (" + error.message + "). The figures are old.";
      if (status.textContent !== text) status.textContent = text;
    }
  }

  document.addEventListener("pointermove", point);
  document.addEventListener("pointerdown", point);
  setInterval(refresh, period);
})();
