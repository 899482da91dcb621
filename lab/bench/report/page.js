"use strict";
// The interactive parts of the page: tooltips with the figures of a chart's mark, and
// tables that are sorted by a click on a column's heading.
(function () {
  var tip = document.createElement("div"), on = null;
  tip.id = "tip";
  tip.hidden = true;
  tip.setAttribute("role", "status");
  document.body.appendChild(tip);

  function hide() {
    if (on) on.classList.remove("on");
    on = null;
    tip.hidden = true;
  }
  function show(mark, x, y) {
    if (mark !== on) {
      hide();
      on = mark;
      on.classList.add("on");
      tip.textContent = mark.dataset.title;
      tip.hidden = false;
    }
    var box = tip.getBoundingClientRect();
    tip.style.left = Math.max(4, Math.min(x + 14, window.innerWidth - box.width - 4)) + "px";
    tip.style.top = (y + 18 + box.height > window.innerHeight ? y - box.height - 12 : y + 18) + "px";
  }
  document.querySelectorAll("svg .m").forEach(function (mark) {
    var title = mark.querySelector("title");
    mark.dataset.title = title.textContent;
    title.remove();
  });
  function point(event) {
    var mark = event.target.closest && event.target.closest("svg .m");
    if (mark) show(mark, event.clientX, event.clientY); else hide();
  }
  document.addEventListener("pointermove", point);
  document.addEventListener("pointerdown", point);
  document.addEventListener("scroll", hide, { passive: true });

  function value(row, column) {
    var cell = row.cells[column];
    return "v" in cell.dataset ? (cell.dataset.v === "" ? NaN : Number(cell.dataset.v)) : cell.textContent;
  }
  function compare(a, b) {
    if (typeof a === "string") return a.localeCompare(b, undefined, { numeric: true });
    return isNaN(a) ? (isNaN(b) ? 0 : 1) : isNaN(b) ? -1 : a - b;
  }
  document.querySelectorAll("table.sort").forEach(function (table) {
    var heads = Array.from(table.tHead.rows[0].cells);
    heads.forEach(function (head, column) {
      var button = document.createElement("button");
      button.type = "button";
      button.title = "sort";
      while (head.firstChild) button.appendChild(head.firstChild);
      head.appendChild(button);
      button.addEventListener("click", function () {
        var down = head.getAttribute("aria-sort") === "ascending", body = table.tBodies[0];
        heads.forEach(function (h) { h.removeAttribute("aria-sort"); });
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        Array.from(body.rows).map(function (row) {
          return { row: row, value: value(row, column) };
        }).sort(function (a, b) {
          var n = compare(a.value, b.value);
          var empty = typeof a.value === "number" && (isNaN(a.value) || isNaN(b.value));
          return down && !empty ? -n : n;
        }).forEach(function (x) { body.appendChild(x.row); });
      });
    });
  });
})();
