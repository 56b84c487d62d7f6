"""How pages look, and the one script that they may run: tables that sort."""

from __future__ import annotations

STYLE = """
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1c1c1c; --soft: #5a5a5a; --rule: #d5d5d5; --strong: #1c1c1c;
  --link: #0b5394; --shade: #f6f6f4; --warn: #8a4b00; --warnback: #fdf3e3; --c0: #0072b2; --c1: #c44e00; --c2: #008560;
  --c3: #a84f86; --c4: #2d8fc7; --c5: #b37a00; --c6: #222222; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #16181b; --ink: #e4e2dd; --soft: #a5a29b; --rule: #3b3f45; --strong: #8d8a84; --link: #8ab8ec;
    --shade: #1f2226; --warn: #f2bf78; --warnback: #2c2417; --c0: #5fb3e8; --c1: #ff9248; --c2: #3fc79c; --c3: #e397c3;
    --c4: #9ad4f5; --c5: #efb63c; --c6: #e4e2dd; }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { font: 16px/1.55 Charter, "Bitstream Charter", "Iowan Old Style", Georgia, "DejaVu Serif", serif;
  max-width: 76rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; color: var(--ink); background: var(--paper); }
h1 { font-size: 1.75rem; line-height: 1.25; margin: 0 0 .4rem; font-weight: 600; overflow-wrap: anywhere; }
h2 { font-size: 1.25rem; margin: 3rem 0 .8rem; font-weight: 600; }
h1 + p.lead { color: var(--soft); margin-top: 0; }
p { white-space: pre-line; max-width: 46rem; margin: .6rem 0; overflow-wrap: anywhere; }
a { color: var(--link); text-underline-offset: .15em; }
a:focus-visible, button:focus-visible, .wide:focus-visible, summary:focus-visible { outline: 2px solid var(--link);
  outline-offset: 2px; }
nav { font: 14px/1.7 system-ui, sans-serif; border-block: 1px solid var(--rule); margin: 1.4rem 0; padding: .5rem 0; }
nav ul { display: flex; flex-wrap: wrap; gap: 0 1.4rem; margin: 0; padding: 0; list-style: none; }
aside { max-width: 46rem; border-left: 3px solid var(--warn); background: var(--warnback); padding: .5rem .9rem;
  margin: 1.2rem 0; font-size: 15px; }
aside p { margin: .35rem 0; }
figure { margin: 1.5rem 0 2.2rem; }
figcaption { font-size: 14px; line-height: 1.45; max-width: 46rem; margin: 0 0 .5rem; overflow-wrap: anywhere; }
figcaption .label { font-weight: 600; }
figure.picture figcaption, figure.charts figcaption { margin: .6rem 0 0; }
.wide { overflow-x: auto; max-width: 100%; }
table { border-collapse: collapse; border-block: 1.5px solid var(--strong); font: 12.5px/1.4 system-ui, sans-serif;
  font-variant-numeric: tabular-nums lining-nums; }
th, td { padding: .26rem 1rem .26rem 0; text-align: left; vertical-align: top; white-space: pre; }
td.long { white-space: pre-line; min-width: 16rem; max-width: 30rem; overflow-wrap: anywhere; }
th:last-child { padding-right: 1rem; }
thead th { border-bottom: 1px solid var(--strong); font-weight: 600; vertical-align: bottom; }
tbody tr:hover { background: var(--shade); }
td.number, th.number { text-align: right; white-space: nowrap; }
td .ci { color: var(--soft); font-size: .9em; }
td strong { font-weight: 700; }
code { font: 12px/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
td code { display: block; white-space: pre-wrap; overflow-wrap: anywhere; min-width: 17rem; max-width: 46rem; }
td.command { max-width: none; }
th button { font: inherit; color: inherit; background: none; border: 0; padding: 0; margin: 0; cursor: pointer;
  text-align: inherit; white-space: inherit; position: relative; }
th button::after { content: "\\2195"; color: var(--soft); opacity: .45; position: absolute; left: 100%; bottom: 0;
  padding-left: .15rem; font-weight: 400; }
th[aria-sort="ascending"] button::after { content: "\\2191"; opacity: 1; }
th[aria-sort="descending"] button::after { content: "\\2193"; opacity: 1; }
.note { color: var(--soft); font-size: 13.5px; line-height: 1.45; }
.panels { display: flex; flex-wrap: wrap; gap: 1.2rem 1.6rem; align-items: flex-start; }
svg.chart { display: block; max-width: 100%; height: auto; font-family: system-ui, sans-serif; }
svg.chart text { fill: var(--ink); }
svg.chart .head { font-size: 12.5px; font-weight: 600; }
svg.chart .tick { font-size: 11px; fill: var(--soft); }
svg.chart .name { font-size: 11.5px; }
svg.chart text.cell { font-size: 11px; } svg.chart text.bright { fill: #ffffff; } svg.chart text.dark { fill: #1a1a1a; }
.rule { stroke: var(--rule); stroke-width: .7; } .axis { stroke: var(--soft); stroke-width: 1; }
.none { fill: var(--shade); stroke: var(--rule); }
.line { fill: none; stroke-width: 1.7; stroke-linejoin: round; } .faint { stroke-width: 1; opacity: .4; }
.band { opacity: .15; stroke: none; }
.line.c0 { stroke: var(--c0); } .line.c1 { stroke: var(--c1); } .line.c2 { stroke: var(--c2); }
.line.c3 { stroke: var(--c3); } .line.c4 { stroke: var(--c4); } .line.c5 { stroke: var(--c5); }
.line.c6 { stroke: var(--c6); }
.dot.c0, .band.c0 { fill: var(--c0); } .dot.c1, .band.c1 { fill: var(--c1); } .dot.c2, .band.c2 { fill: var(--c2); }
.dot.c3, .band.c3 { fill: var(--c3); } .dot.c4, .band.c4 { fill: var(--c4); } .dot.c5, .band.c5 { fill: var(--c5); }
.dot.c6, .band.c6 { fill: var(--c6); }
.d1 { stroke-dasharray: 6 3; } .d2 { stroke-dasharray: 2 2.5; } .d3 { stroke-dasharray: 8 3 2 3; }
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; list-style: none; margin: .6rem 0 0; padding: 0;
  font: 12.5px/1.5 system-ui, sans-serif; }
.legend li { overflow-wrap: anywhere; }
.legend svg { vertical-align: middle; margin-right: .4rem; }
img { max-width: min(100%, 46rem); height: auto; }
@media (prefers-color-scheme: dark) { img { background: #ffffff; padding: .5rem; border-radius: 3px; } }
details { margin: 1rem 0; } summary { cursor: pointer; font: 14px/1.6 system-ui, sans-serif; color: var(--link); }
@media (max-width: 40rem) { body { font-size: 15.5px; padding: 1.4rem 1rem 3rem; } h1 { font-size: 1.4rem; }
  h2 { font-size: 1.15rem; margin-top: 2.2rem; } }
@media print { :root { --paper: #ffffff; --ink: #000000; --soft: #444444; --rule: #bbbbbb; --strong: #000000;
    --link: #000000; --shade: #ffffff; --warn: #000000; --warnback: #ffffff; --c0: #0072b2; --c1: #c44e00;
    --c2: #008560; --c3: #a84f86; --c4: #2d8fc7; --c5: #b37a00; --c6: #222222; }
  body { font-size: 10pt; max-width: none; padding: 0; } nav, th button::after { display: none; }
  .wide { overflow: visible; } table { font-size: 8pt; } figure, tr { break-inside: avoid; } h2 { break-after: avoid; }
  thead { display: table-header-group; } }
"""

SCRIPT = """
'use strict';
document.querySelectorAll('table.sort').forEach(function (table) {
  var body = table.tBodies[0], heads = Array.prototype.slice.call(table.tHead.rows[0].cells);
  function text(row, i) { return row.cells[i].textContent.trim(); }
  function value(row, i) {
    var found = /^[-+\\u2212]?[\\d,]*\\.?\\d+/.exec(text(row, i));
    return found ? parseFloat(found[0].replace('\\u2212', '-').replace(/,/g, '')) : null;
  }
  heads.forEach(function (head, i) {
    var button = document.createElement('button'), numeric = head.classList.contains('number');
    button.type = 'button';
    while (head.firstChild) { button.appendChild(head.firstChild); }
    head.appendChild(button);
    head.setAttribute('aria-sort', 'none');
    button.addEventListener('click', function () {
      var before = head.getAttribute('aria-sort'), first = numeric ? 'descending' : 'ascending';
      var second = numeric ? 'ascending' : 'descending', now = before === first ? second : first;
      heads.forEach(function (other) { other.setAttribute('aria-sort', 'none'); });
      head.setAttribute('aria-sort', now);
      var sign = now === 'ascending' ? 1 : -1, rows = Array.prototype.slice.call(body.rows);
      rows.map(function (row, place) {
        return { row: row, place: place, key: numeric ? value(row, i) : text(row, i) };
      }).sort(function (a, b) {
        var none = (a.key === null || a.key === '') - (b.key === null || b.key === '');
        if (none) { return none; }
        var way = numeric ? a.key - b.key : a.key.localeCompare(b.key, undefined, { numeric: true });
        return sign * way || a.place - b.place;
      }).forEach(function (found) { body.appendChild(found.row); });
    });
  });
});
"""
