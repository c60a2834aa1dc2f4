// The page's data as linked objects: sides, graphs, nodes, and which decisions speak of which node.

const data = JSON.parse(document.getElementById("data").textContent);
const REFUSALS = ["error", "no-kernel", "illegal", "unprofitable", "disabled", "overlapped"]; // the gravest first

const PLAIN_KINDS = new Set(["conv", "matmul", "pointwise"]); // their operators say it as well

class Graph {
  constructor(raw, side, group, index) {
    this.name = raw.name || "";
    this.side = side;
    this.group = group;
    this.nodes = raw.nodes.map((node, i) => new Node(node, i, this, index));
    this.edges = raw.edges;
    this.plan = null;
  }

  get layers() { return this.plan || (this.plan = layered(this.nodes.length, this.edges)); }
}

class Node {
  constructor(raw, at, graph, index) {
    this.raw = raw;
    this.at = at;
    this.graph = graph;
    this.side = graph.side;
    this.group = graph.group;
    this.key = (graph.group ? graph.group.key + "/" + index + "/" : graph.side.key + ":") + at;
    this.origin = raw.origin || [];
    this.open = false;
    this.bodies = (raw.bodies || []).map((body, i) => new Graph(body, graph.side, this, i));
    this.records = [];
    this.site = null; // the record of the fusion that made it
    this.refusal = ""; // the gravest verdict against a fusion that would begin here
    this.region = null;
    const first = (this.fused ? this.bodies[0].nodes[0].raw.op : raw.op).replace(/^.*::/, "");
    this.brief = this.fused && this.origin.length > 1 ? first + " +" + (this.origin.length - 1) : first;
    this.title = first;
    if (this.fused) {
      this.title = chain(this.bodies[0].nodes.map(n => n.raw.op));
      if (!PLAIN_KINDS.has(raw.kind)) {
        this.brief = raw.kind.replace(/_/g, " ").replace(/^./, c => c.toUpperCase());
        this.title = this.brief + ": " + this.title;
      }
    }
  }

  get fused() { return this.raw.rule !== undefined; }
  /** True in the body of a fused node, which runs as one. */
  get inside() { return Boolean(this.group && this.group.fused); }
  get border() { return this.raw.cls === "border"; }
  get free() { return this.raw.free !== undefined; }
  get runs() { return this.raw.kernel !== undefined; }
  get neighbours() {
    const {next, back} = this.graph.layers, nodes = this.graph.nodes;
    return {after: next[this.at].map(i => nodes[i]), before: back[this.at].map(i => nodes[i])};
  }
  /** Seconds, measured if there is a measurement, of the node and the layout changes of its results. */
  get seconds() {
    const own = this.raw.seconds ?? this.raw.predicted ?? 0;
    return (this.raw.copies || []).reduce((sum, c) => sum + (c.seconds ?? c.predicted), own);
  }
}

function chain(ops) {
  const short = ops.map(op => op.replace(/^.*::/, "").replace("BatchNormalization", "BatchNorm").replace("Normalization", "Norm"));
  if (short.length <= 4) return short.join(" + ");
  return short.slice(0, 2).join(" + ") + " + \u2026 + " + short[short.length - 1];
}

/** The nodes of a graph and of the bodies of its control flow; what a fused node holds is no node of its own. */
function* everyNode(graph) {
  for (const node of graph.nodes) {
    yield node;
    if (!node.fused) for (const body of node.bodies) yield* everyNode(body);
  }
}

const sides = data.sides.map(raw => {
  const side = {...raw};
  side.graph = new Graph(raw.graph, side, null, 0);
  side.byOrigin = new Map();
  side.all = [...everyNode(side.graph)];
  for (const node of side.all) for (const name of node.origin) if (!side.byOrigin.has(name)) side.byOrigin.set(name, node);
  side.total = side.graph.nodes.reduce((sum, n) => sum + n.seconds, 0);
  side.regions.forEach((region, i) => {
    region.index = i;
    region.members = region.nodes.map(at => side.graph.nodes[at]);
    region.members.forEach(node => { node.region = region; });
  });
  return side;
});
const [offSide, onSide] = sides;
const slowest = sides.flatMap(side => side.graph.nodes).reduce((most, n) => Math.max(most, n.seconds), 0);

const records = data.records.map((raw, index) => ({...raw, index, ruleName: raw.rule.split("@")[0]}));
const recordsOf = new Map();
for (const record of records) {
  for (const name of new Set([...record.nodes, record.site])) {
    if (!recordsOf.has(name)) recordsOf.set(name, []);
    recordsOf.get(name).push(record);
  }
}
for (const side of sides) for (const node of side.all) {
  const mine = new Set(node.origin);
  node.records = [...new Set(node.origin.flatMap(name => recordsOf.get(name) || []))].sort((a, b) => a.index - b.index);
  if (node.fused) {
    node.site = node.records.filter(r => r.verdict === "fused" && r.kind && r.rule === node.raw.rule && mine.has(r.site))
      .sort((a, b) => b.nodes.length - a.nodes.length)[0] || null;
  }
  const against = node.records.filter(r => mine.has(r.site) && r.verdict !== "fused" && r.verdict !== "overlapped");
  node.refusal = REFUSALS.find(v => against.some(r => r.verdict === v)) || "";
}
const fusedSites = onSide.all.filter(n => n.fused);
const refusals = records.filter(r => r.verdict !== "fused" && r.verdict !== "overlapped");

/** What becomes of a node: fused, folded, alone, gone, free or border. */
function fate(node) {
  if (node.border) return "border";
  if (node.inside) return "fused";
  if (node.side === onSide) return node.fused ? "fused" : node.free ? "free" : node.origin.length > 1 ? "folded" : "alone";
  const home = node.origin.map(name => onSide.byOrigin.get(name)).find(Boolean);
  if (!home) return "gone";
  if (home.fused) return "fused";
  if (home.origin.length > 1) return "folded";
  return node.free ? "free" : "alone";
}

/** The nodes of the other side that a node stands for, or that stand for it. */
function counterparts(node) {
  const other = node.side === onSide ? offSide : onSide;
  if (node.border) return other.graph.nodes.filter(n => n.border && n.raw.name === node.raw.name && n.raw.op === node.raw.op);
  return [...new Set(node.origin.map(name => other.byOrigin.get(name)).filter(Boolean))];
}

/** The node to show for a name of the ledger: a node's, a value's, or of something that was rewritten away. */
function findByName(name, side) {
  for (const candidate of [side, ...sides]) {
    const found = candidate.byOrigin.get(name)
      || candidate.all.find(n => n.raw.name === name || (n.raw.outs || []).some(o => o[0] === name))
      || candidate.all.find(n => n.bodies.some(b => b.nodes.some(i => i.raw.outs.some(o => o[0] === name))));
    if (found) return found;
  }
  return null;
}

// ---- search ----------------------------------------------------------------------------------------------------

const haystack = [];
for (const side of sides) for (const node of side.all) {
  const words = [
    [node.raw.name, 8], [node.raw.op, 6], [node.title, 5], [node.raw.rule || "", 4], [node.raw.kernel || "", 4],
    [node.refusal, 3], [node.raw.kind || "", 3],
    ...node.origin.map(name => [name, 7]), ...(node.raw.outs || []).map(out => [out[0], 3]),
    ...node.records.filter(r => node.origin.includes(r.site)).map(r => [r.rule, 2]),
  ];
  haystack.push({node, words: words.filter(w => w[0]).map(([text, weight]) => [text.toLowerCase(), weight, text])});
}

/** Nodes that have every word of `query`, the best first: [{node, matched}]. */
function search(query) {
  const terms = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (!terms.length) return [];
  const hits = [];
  for (const {node, words} of haystack) {
    let score = 0, matched = "";
    for (const term of terms) {
      let best = 0;
      for (const [text, weight, original] of words) {
        const at = text.indexOf(term);
        if (at < 0) continue;
        const value = weight * (text === term ? 4 : at === 0 ? 2 : 1);
        if (value > best) { best = value; matched = original; }
      }
      if (!best) { score = 0; break; }
      score += best;
    }
    if (score) hits.push({node, matched, score: score + (node.side === onSide ? 0.5 : 0)});
  }
  return hits.sort((a, b) => b.score - a.score);
}

// ---- numbers in words ------------------------------------------------------------------------------------------

function time(seconds) {
  if (seconds == null) return "";
  if (seconds >= 1) return seconds.toFixed(2) + " s";
  if (seconds >= 1e-3) return (seconds * 1e3).toFixed(seconds >= 0.1 ? 0 : seconds >= 0.01 ? 1 : 2) + " ms";
  return (seconds * 1e6).toFixed(seconds >= 1e-4 ? 0 : 1) + " \u00b5s";
}
function bytes(count) {
  if (count < 1000) return count + " B";
  const [scaled, unit] = count < 1e6 ? [count / 1e3, " kB"] : [count / 1e6, " MB"];
  return scaled.toFixed(scaled < 100 ? 1 : 0) + unit;
}
function percent(part, whole) { return whole ? (100 * part / whole).toFixed(part / whole < 0.1 ? 1 : 0) + " %" : ""; }
function plural(count, noun) { return count + " " + noun + (count === 1 ? "" : "s"); }
