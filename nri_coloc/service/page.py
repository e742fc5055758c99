"""The page at `/`: one file, without requests to other hosts, readable in light and dark.

It draws `/page.json`, with the sentences of `nri-coloc top` (`overview`), and the records of `/v1/audit`. A CPU has its
owner's sign and a pattern beside its colour. Pod names and annotation values are hostile input: the script sets every
text with `textContent` and never parses markup, which a test checks.
"""

from typing import Final

_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #59636e; --paper: #fff; --line: #d1d9e0;
  --reserved: #d0d4da; --pool: #cdbff0; --share: #bcd9f5; --lent: #f3d19c; --alarm: #b3261e; --stripe: #0002; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ed; --soft: #9aa4af; --paper: #14171b;
  --line: #343b43; --reserved: #4a5058; --pool: #4a3f78; --share: #1f4a73; --lent: #6b4e1c;
  --alarm: #ff8a80; --stripe: #fff3; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 80rem; background: var(--paper); color: var(--ink);
  font: 15px/1.45 system-ui, sans-serif; }
h1 { font-size: 1.3rem; margin: 0; } h2 { font-size: 1rem; margin: 1.6rem 0 .5rem; }
ul { margin: .3rem 0; padding-left: 1.2rem; }
#status { font-weight: 600; margin: .3rem 0; }
.note { color: var(--soft); } .alarm { color: var(--alarm); font-weight: 600; }
.cpus { display: flex; flex-wrap: wrap; gap: 3px; margin-bottom: .6rem; }
.cpu { min-width: 2.6rem; padding: .15rem .3rem; border: 1px solid var(--line); border-radius: 4px;
  text-align: center; font-variant-numeric: tabular-nums; white-space: nowrap; }
.reserved, .kubelet { background: var(--reserved); } .pool { background: var(--pool); }
.share { background: var(--share); } .none { background: transparent; }
.lent, .reclaim { background: repeating-linear-gradient(135deg, transparent 0 5px, var(--stripe) 5px 10px),
  var(--lent); }
.dedicated { color: #14171b; background: hsl(var(--hue) 70% 76%); border-width: 2px; border-color: var(--ink); }
.legend { list-style: none; padding: 0; } .legend .cpu { display: inline-block; margin-right: .5rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .25rem .6rem .25rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; overflow-wrap: anywhere; }
th { color: var(--soft); font-weight: 600; white-space: nowrap; }
td.short { white-space: nowrap; overflow-wrap: normal; } td.subject { min-width: 9rem; }
"""

_BODY: Final = """
<h1>nri-coloc</h1>
<p id="status" role="status">asking the daemon …</p>
<ul id="problems" class="alarm"></ul><ul id="facts"></ul>
<h2>CPUs by owner</h2><div id="cpus"></div>
<ul id="legend" class="legend"></ul>
<h2>Pools</h2><div class="scroll"><table id="pools"></table></div>
<h2>Containers</h2><div class="scroll"><table id="containers"></table></div>
<h2>Last decisions</h2><div class="scroll"><table id="decisions"></table></div>
<noscript>This page needs a script; /v1/state, /v1/capacity and /v1/audit have the same figures.</noscript>
"""

_SCRIPT: Final = """
"use strict";
const PERIOD_MS = 2000, KEPT = 50;
let since = 0, decisions = [], answeredAt = 0;
const byId = (id) => document.getElementById(id);

function make(tag, text, className) {
  const node = document.createElement(tag);
  node.textContent = text === undefined || text === null ? "" : String(text);
  if (className) node.className = className;
  return node;
}
function fill(table, heads, rows) {
  const head = make("tr");
  head.append(...heads.map((text) => make("th", text)));
  table.replaceChildren(head, ...rows.map((cells) => {
    const row = make("tr");
    row.append(...cells.map((cell) => cell instanceof Node ? cell : make("td", cell)));
    return row;
  }));
}
function list(id, sentences) {
  byId(id).replaceChildren(...sentences.map((sentence) => make("li", sentence)));
}
function box(text, owner, index) {
  const node = make("span", text, "cpu " + owner.kind);
  if (owner.kind === "dedicated") node.style.setProperty("--hue", Math.round(index * 137.5) % 360);
  return node;
}
function drawCpus(shown) {
  byId("cpus").replaceChildren(...shown.nodes.flatMap((numa) => {
    const row = make("div", "", "cpus");
    row.append(...numa.cells.map(([cpu, index]) => {
      const owner = shown.legend[index], cell = box(cpu + " " + owner.sign, owner, index);
      cell.title = "CPU " + cpu + ": " + owner.name;
      return cell;
    }));
    return shown.nodes.length > 1 ? [make("div", "node " + numa.id, "note"), row] : [row];
  }));
  byId("legend").replaceChildren(...shown.legend.map((owner, index) => {
    const line = make("li");
    line.append(box(owner.sign, owner, index), make("span", owner.name + ": CPUs " + owner.cpus));
    return line;
  }));
}
function drawTables(shown) {
  fill(byId("pools"), ["pool", "CPUs", "containers"], shown.pools);
  fill(byId("containers"), ["container", "class", "pool", "CPUs as decided", "read back"],
    shown.containers.map((c) => {
      const name = c.sign ? c.name + " (" + c.sign + ")" : c.name, look = c.warns ? "alarm" : "";
      return [name, c.qos, c.pool, make("td", c.cpus, look), make("td", c.read_back, look)];
    }));
}
function drawDecisions() {
  const subject = (r) => [r.namespace, r.pod, r.container].filter(Boolean).join("/") || r.pool;
  fill(byId("decisions"), ["time (UTC)", "event", "subject", "reason", "because"], decisions.map((r) => [
    make("td", String(r.ts).slice(11, 23), "short"), make("td", r.event, "short"),
    make("td", subject(r), "subject"), make("td", r.reason, "short"), r.because]));
}
async function ask(path) {
  const answer = await fetch(path, { cache: "no-store" });
  if (!answer.ok) throw new Error(path + " answered " + answer.status);
  return answer.json();
}
async function askDecisions() {
  for (;;) {
    const page = await ask("/v1/audit?limit=1000&since=" + since);
    if (page.next < since) decisions = [];  // the daemon restarted
    const more = page.next !== since && page.records.length > 0;
    since = page.next;
    decisions = page.records.reverse().concat(decisions).slice(0, KEPT);
    if (!more) return;
  }
}
async function tick() {
  const status = byId("status");
  try {
    const [shown] = await Promise.all([ask("/page.json"), askDecisions()]);
    drawCpus(shown); drawTables(shown); drawDecisions();
    list("problems", shown.problems.concat(shown.warnings)); list("facts", shown.facts);
    answeredAt = Date.now();
    status.className = shown.is_ready ? "" : "alarm";
    status.textContent = shown.status + ", as of " + new Date().toLocaleTimeString();
  } catch (error) {
    status.className = "alarm";
    const age = answeredAt ? "; all below is as of " + Math.round((Date.now() - answeredAt) / 1000) + " s ago" : "";
    status.textContent = "no answer from the daemon (" + error.message + ")" + age;
  }
}
async function loop() {
  if (!document.hidden) await tick();
  setTimeout(loop, PERIOD_MS);
}
loop();
"""

PAGE: Final = (
    '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>nri-coloc</title>'
    '<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">'
    f"<style>{_STYLE}</style></head><body>{_BODY}<script>{_SCRIPT}</script></body></html>\n"
).encode()
"""The page as it is sent."""
