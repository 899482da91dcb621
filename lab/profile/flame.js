"use strict";
// Draws the flame graph from the tree of stacks in the page. A node is {n: name, s: samples,
// v: seconds, c: index of the cause, k: children}.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const by = (id) => document.getElementById(id);
  const graph = by("graph"), tip = by("tip"), search = by("search");
  const ROW = 18, LEAST = 0.6; // pixels
  let view = 0, focus = null, pattern = null, cause = -1;

  for (const v of data.views) {
    (function link(node, parent, depth) {
      node.parent = parent;
      node.depth = depth;
      for (const child of node.k || []) link(child, node, depth + 1);
    })(v.root, null, 0);
  }
  const hue = (i) => (data.causes[i].cost ? (i * 67) % 360 : 210 + (i * 7) % 30);
  const fill = (i) => `hsl(${hue(i)} ${data.causes[i].cost ? "var(--sat)" : "14%"} var(--light))`;
  const share = (part, whole) => (whole > 0 ? (100 * part / whole).toFixed(2) : "0.00") + " %";
  const matches = (node) => (pattern ? pattern.test(node.n) : cause >= 0 && node.c === cause && !node.k);

  function describe(node) {
    const root = data.views[view].root;
    return `${node.n} — ${node.s} samples, ${node.v.toFixed(3)} s, ${share(node.v, root.v)} of ${data.views[view].name.toLowerCase()}; mostly: ${data.causes[node.c].title}`;
  }

  // A matching function is counted once for each stack, even if it is on the stack several times.
  function found(node) {
    if (matches(node)) return node.v;
    return (node.k || []).reduce((sum, child) => sum + found(child), 0);
  }

  function box(node, left, width, above) {
    const div = document.createElement("div");
    div.style.left = left + "px";
    div.style.width = width + "px";
    div.style.top = node.depth * ROW + "px";
    div.style.background = fill(node.c);
    div.textContent = width > 24 ? node.n : "";
    div.classList.toggle("above", above);
    if (pattern) div.classList.toggle("hit", pattern.test(node.n));
    else if (cause >= 0) div.classList.toggle("dim", node.c !== cause);
    div.onmousemove = (e) => {
      tip.textContent = describe(node);
      tip.style.display = "block";
      tip.style.left = Math.max(4, Math.min(e.clientX + 12, innerWidth - tip.offsetWidth - 8)) + "px";
      tip.style.top = Math.max(4, Math.min(e.clientY + 16, innerHeight - tip.offsetHeight - 8)) + "px";
    };
    div.onmouseleave = () => { tip.style.display = "none"; };
    div.onclick = () => { focus = node; by("detail").textContent = describe(node); draw(); };
    graph.append(div);
  }

  function draw() {
    const root = data.views[view].root, width = graph.clientWidth;
    focus = focus || root;
    graph.replaceChildren();
    tip.style.display = "none";
    for (let node = focus.parent; node; node = node.parent) box(node, 0, width, true);
    let deepest = focus.depth;
    (function lay(node, left) {
      const pixels = width * node.v / Math.max(focus.v, 1e-12);
      if (pixels < LEAST) return;
      deepest = Math.max(deepest, node.depth);
      box(node, left, pixels, false);
      for (const child of node.k || []) {
        lay(child, left);
        left += width * child.v / Math.max(focus.v, 1e-12);
      }
    })(focus, 0);
    graph.style.height = (deepest + 1) * ROW + "px";
    by("found").textContent = pattern || cause >= 0 ? share(found(root), root.v) + " matched" : "";
  }

  data.views.forEach((v, i) => {
    const button = document.createElement("button");
    button.textContent = v.name;
    button.onclick = () => { view = i; focus = null; press(); draw(); };
    by("views").append(button, " ");
  });
  data.causes.forEach((c, i) => {
    const button = document.createElement("button"), mark = document.createElement("i");
    mark.style.background = fill(i);
    button.append(mark, `${c.title} ${c.percent.toFixed(1)} %`);
    button.onclick = () => { cause = cause === i ? -1 : i; pattern = null; search.value = ""; press(); draw(); };
    by("legend").append(button);
  });
  function press() {
    [...by("views").children].forEach((b, i) => b.setAttribute("aria-pressed", i === view));
    [...by("legend").children].forEach((b, i) => b.setAttribute("aria-pressed", i === cause));
  }

  search.oninput = () => {
    cause = -1;
    try { pattern = search.value ? new RegExp(search.value, "i") : null; } catch { return; } // not finished yet
    press();
    draw();
  };
  by("reset").onclick = () => { focus = null; draw(); };
  by("theme").onclick = () => theme(document.documentElement.dataset.theme !== "dark");
  function theme(dark) { document.documentElement.dataset.theme = dark ? "dark" : "light"; }
  theme(matchMedia("(prefers-color-scheme: dark)").matches);
  addEventListener("keydown", (e) => {
    if (e.key === "Escape") { focus = null; draw(); }
    if (e.key === "/" && document.activeElement !== search) { e.preventDefault(); search.focus(); }
  });
  addEventListener("resize", draw);
  press();
  draw();
})();
