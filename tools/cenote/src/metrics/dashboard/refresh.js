// Replaces the page's contents every ten seconds. Without it the page reloads itself.
"use strict";
(function () {
  const period = 10000;
  const status = document.getElementById("status");
  const same = (element, other) =>
    element.tagName === other.tagName && element.getAttribute("href") === other.getAttribute("href");
  const focusable = (root) => Array.from(root.querySelectorAll("a, button, input, summary, .scroll"));

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
      if (status.textContent) status.textContent = "";
    } catch (error) {
      const text = "The daemon does not answer (" + error.message + "). The figures are old.";
      if (status.textContent !== text) status.textContent = text;
    }
  }

  setInterval(refresh, period);
})();
