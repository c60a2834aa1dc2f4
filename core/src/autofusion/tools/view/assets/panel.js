// The panel beside the networks: the overview, or everything about one node.

const VERDICTS = {
  fused: "Fused", illegal: "Not legal", "no-kernel": "No kernel", unprofitable: "Does not pay", overlapped: "Taken by another",
  disabled: "Switched off", error: "Rule failed",
};
const VERDICT_HELP = {
  illegal: "The pattern is there, but fusing would change what the network computes.",
  "no-kernel": "Legal, but no installed kernel pack runs the fused operator.",
  unprofitable: "Legal and possible, but not expected to be faster.",
  overlapped: "Another site took one of the nodes.",
  disabled: "Switched off by an option, a level or a budget.",
  error: "The rule raised an error; the network stayed as it was.",
};

function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value == null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") element.style.cssText = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(3).filter(c => c != null && c !== ""));
  return element;
}

const panelElement = document.getElementById("panel");
const folded = new Set(["rewritten", "packs"]);
let go = () => {}; // select and show a node; set by main

function section(key, title, count, ...children) {
  const body = h("details", {class: "section", open: !folded.has(key), "data-section": key},
    h("summary", {}, h("span", {}, title), count == null ? null : h("span", {class: "count"}, String(count))), ...children);
  body.addEventListener("toggle", () => { if (body.open) folded.delete(key); else folded.add(key); });
  return body;
}

/** A list that shows its first rows, and the rest when asked. */
function rows(items, make, most = 8) {
  const list = h("ul", {class: "rows"}, items.slice(0, most).map(make));
  if (items.length > most) {
    const more = h("li", {}, h("button", {class: "more", onclick: () => {
      more.remove();
      list.append(...items.slice(most).map(make));
    }}, "Show " + (items.length - most) + " more"));
    list.append(more);
  }
  return list;
}

function row(node, right, extra) {
  return h("li", {}, h("button", {class: "row", onclick: () => go(node), "data-key": node.key},
    h("span", {class: "dot", style: "background:var(--class-" + node.raw.cls + ")"}),
    h("span", {class: "what"}, h("b", {}, node.title), h("code", {}, node.raw.name), extra),
    right ? h("span", {class: "right"}, right) : null));
}

function nameButton(name, side) {
  const found = findByName(name, side);
  return found ? h("button", {class: "name", onclick: () => go(found)}, name) : h("code", {}, name);
}

function tile(label, before, after, note) {
  return h("div", {class: "tile"}, h("span", {class: "label"}, label),
    h("span", {class: "value"}, before == null ? null : [h("s", {}, before), h("span", {class: "to"}, "\u2192")], h("b", {}, after)),
    note ? h("span", {class: "note"}, note) : null);
}

// ---- overview --------------------------------------------------------------------------------------------------

function overview() {
  const measured = data.profiled, before = measured ? offSide.seconds : offSide.predicted, after = measured ? onSide.seconds : onSide.predicted;
  const byGain = [...fusedSites].sort((a, b) => gain(b) - gain(a));
  const slow = onSide.all.filter(n => n.runs && !(n.bodies.length && !n.fused)).sort((a, b) => b.seconds - a.seconds);
  const rewritten = new Map();
  for (const r of records) if (r.verdict === "fused" && !r.kind) rewritten.set(r.rule, (rewritten.get(r.rule) || 0) + 1);
  const dense = offSide.regions, left = onSide.regions;
  return [
    h("h1", {}, data.name),
    h("p", {class: "sub"}, "Level " + data.level + " beside level off, on " + data.machine + ". " +
      (data.loaded ? plural(data.loaded, "operator") + " in the file, constants apart. " : "") +
      (measured ? "Times are measured." : "Times are predicted; measure them with --profile.")),
    h("div", {class: "tiles"},
      tile("Steps", String(offSide.steps), String(onSide.steps)),
      tile(measured ? "Time, measured" : "Time, predicted", time(before), time(after), (before / after).toFixed(2) + "\u00d7"),
      tile("Memory alive at most", bytes(offSide.peak), bytes(onSide.peak)),
      tile("Memory set aside", bytes(offSide.arena), bytes(onSide.arena))),
    verdictBar(),
    section("fused", "Fused sites, by " + (measured ? "measured" : "predicted") + " gain", fusedSites.length, rows(byGain, n =>
      row(n, gained(gain(n)), h("span", {class: "rule"}, n.raw.rule)))),
    refusedSection(),
    section("dense", "Dense in small operators", dense.length, dense.length ? rows(dense, regionRow, 5)
      : h("p", {class: "empty"}, "No place has four small operators in a row.")),
    left.length ? section("left", "Still dense after fusion", left.length, rows(left, regionRow, 5)) : null,
    section("slow", "Slowest steps", slow.length, rows(slow, n => row(n, [time(n.seconds), h("i", {}, percent(n.seconds, onSide.total))],
      h("span", {class: "bar"}, h("span", {style: "width:" + (100 * n.seconds / (slow[0].seconds || 1)).toFixed(1) + "%"}))))),
    rewritten.size ? section("rewritten", "Rewritten before fusing", [...rewritten.values()].reduce((a, b) => a + b, 0),
      h("ul", {class: "plain"}, [...rewritten].sort((a, b) => b[1] - a[1]).map(([rule, n]) => h("li", {}, h("span", {class: "rule"}, rule), " ", h("i", {}, n + "\u00d7"))))) : null,
    section("packs", "Packs", data.packs.length, h("ul", {class: "plain"},
      data.packs.map(([name, version, kind]) => h("li", {}, h("code", {}, name), " " + version + ", " + kind))), h("p", {class: "sub"}, "Autofusion " + data.version)),
  ];
}

/** Seconds that the operators of a site take alone less those of the site, as the other times of the page: measured or predicted. */
function gain(node) {
  const alone = measuredAlone(node);
  if (alone != null) return alone - node.seconds;
  return node.site && node.site.before != null ? node.site.before - node.site.after : 0;
}

function gained(seconds) {
  return seconds > 0 ? "\u2212" + time(seconds) : seconds < 0 ? h("span", {class: "warn"}, "+" + time(-seconds)) : "";
}

function measuredAlone(node) {
  const others = data.profiled ? counterparts(node) : [];
  return others.length ? others.reduce((sum, n) => sum + n.seconds, 0) : null;
}

function verdictBar() {
  const counted = Object.entries(data.counts).filter(([, n]) => n);
  if (!counted.length) return h("p", {class: "empty"}, "No rule ran.");
  return h("div", {class: "verdicts", title: "Decisions of all rules, rewrites included"},
    h("div", {class: "strip"}, counted.map(([v, n]) => h("span", {style: "flex:" + n + ";background:var(--verdict-" + v + ")"}))),
    h("ul", {}, counted.map(([v, n]) => h("li", {title: VERDICT_HELP[v]}, h("span", {class: "dot", style: "background:var(--verdict-" + v + ")"}), n + " " + VERDICTS[v].toLowerCase()))));
}

function refusedSection() {
  if (!refusals.length) return section("refused", "Refused sites", 0, h("p", {class: "empty"}, "Nothing that a rule looked at was refused."));
  const groups = new Map();
  for (const r of refusals) {
    const key = r.verdict + " " + r.rule;
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(r);
  }
  const sorted = [...groups.values()].sort((a, b) => REFUSALS.indexOf(a[0].verdict) - REFUSALS.indexOf(b[0].verdict) || b.length - a.length);
  return section("refused", "Refused sites", refusals.length, sorted.map(group => h("div", {class: "group"},
    h("p", {class: "head"}, chip(group[0].verdict), h("span", {class: "rule"}, group[0].rule), h("i", {}, group.length + "\u00d7")),
    rows(group, r => {
      const node = findByName(r.site, onSide);
      return h("li", {}, h("button", {class: "row refused", onclick: () => node && go(node), "data-site": r.site},
        h("span", {class: "what"}, h("code", {}, r.site), h("span", {class: "why"}, r.reason || r.nodes.join(" + ")))));
    }, 3))));
}

function regionRow(region) {
  const spent = region.seconds ?? region.predicted;
  return h("li", {}, h("button", {class: "row", onclick: () => go(region.members[0], region)},
    h("span", {class: "dot region"}),
    h("span", {class: "what"}, h("b", {}, plural(region.operators, "small operator")), h("code", {}, "from " + region.members[0].raw.name)),
    h("span", {class: "right"}, region.members[0].side === offSide ? ["now in ", plural(region.steps, "step")] : "", h("i", {}, time(spent)))));
}

// ---- one node --------------------------------------------------------------------------------------------------

function chip(verdict) { return h("span", {class: "chip", style: "--chip:var(--verdict-" + verdict + ")", title: VERDICT_HELP[verdict]}, VERDICTS[verdict] || verdict); }

function about(node) {
  const kind = node.inside ? "In the body of a fused node" : node.fused ? "Fused site" : node.border ? node.raw.op + " of the model"
    : node.side === offSide ? "Operator, level off" : "Operator, level " + data.level;
  const parts = [
    h("nav", {}, h("button", {class: "back", onclick: () => go(null)}, "\u2190 Overview")),
    h("p", {class: "kind"}, h("span", {class: "dot", style: "background:var(--class-" + node.raw.cls + ")"}), kind),
    h("h1", {}, node.title),
    h("code", {class: "full"}, node.raw.name),
  ];
  if (node.site) parts.push(siteCard(node));
  else if (!node.border && !node.inside) parts.push(becomes(node));
  if (node.bodies.length && !node.fused) parts.push(h("p", {class: "actions"}, h("button", {class: "act", id: "toggle-body", onclick: () => callOut.toggle(node)},
    (node.open ? "Close " : "Open ") + (node.bodies.length > 1 ? "the bodies" : "the body"))));
  if (node.group) parts.push(h("p", {}, "Part of ", h("button", {class: "name", onclick: () => go(node.group)}, node.group.title), "."));
  if (node.runs || node.free) parts.push(runs(node));
  const mine = new Set(node.origin);
  const against = node.records.filter(r => r.verdict !== "fused");
  const here = against.filter(r => r.verdict !== "overlapped" && mine.has(r.site));
  const near = against.filter(r => r.verdict !== "overlapped" && !mine.has(r.site));
  const taken = against.filter(r => r.verdict === "overlapped");
  if (here.length) parts.push(section("here", node.fused ? "Refused here" : "Why not fused", here.length, here.map(r => refusal(r, node))));
  if (near.length) parts.push(section("near", "Refused sites that it is part of", near.length, near.map(r => refusal(r, node))));
  if (node.origin.length > 1) {
    const others = node.origin.map(name => offSide.byOrigin.get(name) || name);
    parts.push(section("contains", "Stands for", node.origin.length, rows(others, other => typeof other === "string"
      ? h("li", {}, h("span", {class: "row"}, h("span", {class: "what"}, h("code", {}, other), h("span", {class: "why"}, "a constant, or rewritten away"))))
      : row(other, time(other.seconds)), 12)));
  }
  const rewrites = node.records.filter(r => r.verdict === "fused" && !r.kind);
  if (rewrites.length) parts.push(section("rewrites", "Rewritten on the way", rewrites.length, h("ul", {class: "plain"},
    rewrites.map(r => h("li", {}, h("span", {class: "rule"}, r.rule), h("div", {class: "names"}, r.nodes.map(name => nameButton(name, offSide))))))));
  if (taken.length) parts.push(section("taken", "Other sites that wanted it", taken.length, taken.map(r => refusal(r, node))));
  if (node.raw.lost || node.raw.refused) parts.push(kernels(node));
  if (node.region) parts.push(section("region", "Dense region", null, h("ul", {class: "rows"}, regionRow(node.region))));
  parts.push(values("Operands", node.raw.ins, node), values("Results", node.raw.outs, node));
  if (node.raw.attrs) parts.push(section("attributes", "Attributes", Object.keys(node.raw.attrs).length, h("table", {},
    Object.entries(node.raw.attrs).map(([name, text]) => h("tr", {}, h("th", {}, name), h("td", {}, h("code", {}, text)))))));
  return parts;
}

function siteCard(node) {
  const r = node.site, measured = measuredAlone(node);
  return h("div", {class: "card fused-card"},
    h("p", {class: "head"}, chip("fused"), h("span", {class: "rule"}, r.rule)),
    h("p", {}, "Runs in ", h("code", {}, r.kernel || node.raw.kernel), ", as kind ", h("code", {}, r.kind), "."),
    r.before == null ? null : compared("Predicted", r.before, r.after, time),
    measured == null ? null : compared("Measured", measured, node.seconds, time),
    r.memory_before == null ? null : compared("Memory alive meanwhile", r.memory_before, r.memory_after, bytes),
    h("p", {class: "actions"},
      h("button", {class: "act", id: "toggle-body", onclick: () => callOut.toggle(node)}, node.open ? "Close the body" : "Open the body"),
      h("button", {class: "act", onclick: () => callOut.showOther(node)}, "Show it unfused")));
}

function compared(label, before, after, words) {
  const most = Math.max(before, after) || 1, less = before > after;
  const line = (value, name) => h("div", {class: "meter " + name}, h("span", {style: "--share:" + Math.max(0.01, value / most).toFixed(3)}), h("i", {}, words(value)));
  const change = before ? (less ? "\u2212" + percent(before - after, before) : after > before ? "+" + percent(after - before, before) : "the same") : "";
  return h("div", {class: "compared"}, h("p", {}, label, h("b", {class: less ? "good" : ""}, change)), line(before, "was"), line(after, "is"));
}

function becomes(node) {
  const what = fate(node), others = counterparts(node);
  if (node.side === onSide) {
    return h("p", {}, what === "folded" ? "Several operators of the file were folded together into this one." : node.free ? ""
      : node.bodies.length ? "Control flow: what is in its bodies is planned and fused on its own." : "Runs on its own: no site was made here.");
  }
  const home = others[0];
  if (!home) return h("p", {}, "Not there any more after rewriting: its result is a constant, or part of what replaced it.");
  const words = {fused: "Fused into ", folded: "Folded into ", alone: "Runs on its own as ", free: "Costs nothing, as "};
  return h("p", {class: "fate"}, words[what] || "Becomes ", h("button", {class: "name", onclick: () => go(home)}, home.title),
    home.site ? [" by ", h("span", {class: "rule"}, home.site.rule)] : "");
}

function runs(node) {
  if (node.free && !node.runs) return h("p", {}, "Costs nothing: " + node.raw.free + ".");
  const copies = node.raw.copies || [];
  return h("table", {class: "facts"},
    h("tr", {}, h("th", {}, "Kernel"), h("td", {}, h("code", {}, node.raw.kernel), " " + node.raw.version, node.raw.slow ? h("em", {class: "warn"}, " reference, not a fast kernel") : null)),
    node.raw.seconds == null ? null : h("tr", {}, h("th", {}, "Measured"), h("td", {}, time(node.raw.seconds), h("i", {}, " " + percent(node.raw.seconds, node.side.total) + " of the run"))),
    h("tr", {}, h("th", {}, "Predicted"), h("td", {}, time(node.raw.predicted), node.raw.seconds == null ? h("i", {}, " " + percent(node.raw.predicted, node.side.total) + " of the run") : null)),
    copies.map(c => h("tr", {}, h("th", {}, "Layout change"), h("td", {}, time(c.seconds ?? c.predicted), " ", h("code", {}, c.kernel)))));
}

function refusal(r, node) {
  return h("div", {class: "card refusal", "data-verdict": r.verdict},
    h("p", {class: "head"}, chip(r.verdict), h("span", {class: "rule"}, r.rule)),
    r.reason ? h("p", {class: "reason"}, r.reason) : null,
    r.hint ? h("p", {class: "hint"}, r.hint.charAt(0).toUpperCase() + r.hint.slice(1) + ".") : null,
    r.culprit ? h("p", {}, "At fault: ", nameButton(r.culprit, node.side)) : null,
    r.before == null ? null : compared("Predicted", r.before, r.after, time),
    h("details", {class: "small"}, h("summary", {}, plural(r.nodes.length, "node")), h("div", {class: "names"}, r.nodes.map(name => nameButton(name, offSide)))));
}

function kernels(node) {
  return section("kernels", "Other kernels", (node.raw.lost || []).length + (node.raw.refused || []).length, h("table", {},
    (node.raw.lost || []).map(([kernel, seconds]) => h("tr", {}, h("th", {}, h("code", {}, kernel)), h("td", {}, "predicted " + time(seconds)))),
    (node.raw.refused || []).map(([pack, reason]) => h("tr", {}, h("th", {}, h("code", {}, pack)), h("td", {}, "refused: " + reason)))));
}

function values(title, list, node) {
  if (!list || !list.length) return null;
  return section(title.toLowerCase(), title, list.length, h("table", {}, list.map(([name, type, constant]) =>
    h("tr", {}, h("th", {}, constant ? h("code", {}, name) : nameButton(name, node.side)), h("td", {}, h("code", {}, type), constant ? h("i", {}, " constant") : null)))));
}

function showPanel(node) {
  panelElement.replaceChildren(...(node ? about(node) : overview()).filter(Boolean));
  panelElement.dataset.node = node ? node.key : "";
  panelElement.scrollTop = 0;
}
