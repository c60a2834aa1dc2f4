// Layered layout. A graph is laid in layers along the data flow; crossings are reduced by ordering the layers, and
// positions follow from least squares. The order depends on the edges alone, so that opening a node moves its
// neighbours but never rearranges them. Tall networks are folded into columns, read like those of a newspaper.

const LONG_EDGES = 40000; // Most waypoints; beyond that the longest edges are drawn straight.
const GAP_X = 26, GAP_WAY = 12, GAP_Y = 34, GUTTER = 44, LANE = 7;

/** Layers and their order for `count` nodes in topological order; `edges` are [from, to] pairs. */
function layered(count, edges) {
  const next = Array.from({length: count}, () => []), back = Array.from({length: count}, () => []);
  const known = new Set();
  for (const [a, b] of edges) {
    const key = a * count + b;
    if (a === b || known.has(key)) continue;
    known.add(key);
    next[a].push(b);
    back[b].push(a);
  }
  const layer = new Array(count).fill(0);
  for (let v = 0; v < count; v++) for (const w of next[v]) layer[w] = Math.max(layer[w], layer[v] + 1);
  // What feeds more than it takes moves down to its readers: shorter edges.
  for (let v = count - 1; v >= 0; v--) {
    if (!next[v].length || next[v].length < back[v].length) continue;
    if (back[v].length && next[v].length === back[v].length) continue;
    let nearest = Infinity;
    for (const w of next[v]) nearest = Math.min(nearest, layer[w] - 1);
    layer[v] = Math.max(layer[v], nearest);
  }
  // Edges over several layers get waypoints; all edges of one node share them.
  const spans = [];
  for (let v = 0; v < count; v++) {
    let last = layer[v] + 1;
    for (const w of next[v]) last = Math.max(last, layer[w]);
    if (last > layer[v] + 1) spans.push([last - layer[v] - 1, v]);
  }
  spans.sort((a, b) => a[0] - b[0]);
  let budget = LONG_EDGES;
  const routed = new Set();
  for (const [length, v] of spans) if ((budget -= length) >= 0) routed.add(v);
  const depth = layer.reduce((a, b) => Math.max(a, b), -1) + 1;
  const items = [], layers = Array.from({length: depth}, () => []), straight = [];
  const add = (node, at) => {
    items.push({node, layer: at, up: [], down: [], id: items.length});
    layers[at].push(items.length - 1);
    return items.length - 1;
  };
  for (let v = 0; v < count; v++) add(v, layer[v]);
  const link = (a, b) => { items[a].down.push(b); items[b].up.push(a); };
  const paths = new Map(); // "from,to" -> the items that the edge passes
  for (let v = 0; v < count; v++) {
    const way = [v];
    for (const w of [...next[v]].sort((a, b) => layer[a] - layer[b])) {
      const needed = layer[w] - layer[v];
      if (needed > 1 && !routed.has(v)) { straight.push([v, w]); continue; }
      while (way.length < needed) {
        const waypoint = add(-1, layer[v] + way.length);
        link(way[way.length - 1], waypoint);
        way.push(waypoint);
      }
      link(way[needed - 1], w);
      paths.set(v + "," + w, [...way.slice(0, needed), w]);
    }
  }
  order(items, layers);
  return {count, items, layers, straight, paths, next, back};
}

/** Sweep up and down, each layer in the order of its neighbours' middle; keep the order with the fewest crossings. */
function order(items, layers) {
  const place = new Array(items.length).fill(0);
  const number = () => layers.forEach(row => row.forEach((id, i) => { place[id] = i; }));
  const middle = (links, own) => {
    if (!links.length) return own;
    let sum = 0;
    for (const id of links) sum += place[id];
    return sum / links.length;
  };
  number();
  let best = layers.map(row => [...row]), fewest = crossings(items, layers, place);
  for (let sweep = 0; sweep < 10 && fewest > 0; sweep++) {
    const down = sweep % 2 === 0;
    for (let k = 1; k < layers.length; k++) {
      const row = layers[down ? k : layers.length - 1 - k];
      const key = new Map(row.map(id => [id, middle(down ? items[id].up : items[id].down, place[id])]));
      row.sort((a, b) => key.get(a) - key.get(b) || place[a] - place[b]);
      row.forEach((id, i) => { place[id] = i; });
    }
    const found = crossings(items, layers, place);
    if (found < fewest) { fewest = found; best = layers.map(row => [...row]); }
  }
  best.forEach((row, i) => { layers[i] = row; });
}

function crossings(items, layers, place) {
  let total = 0;
  for (let k = 0; k + 1 < layers.length; k++) {
    const width = layers[k + 1].length, tree = new Array(width + 1).fill(0);
    let seen = 0;
    for (const id of layers[k]) {
      const ends = items[id].down.map(x => place[x]).sort((a, b) => a - b);
      for (const end of ends) {
        let atMost = 0;
        for (let i = end + 1; i > 0; i -= i & -i) atMost += tree[i];
        total += seen - atMost;
      }
      for (const end of ends) {
        for (let i = end + 1; i <= width; i += i & -i) tree[i]++;
        seen++;
      }
    }
  }
  return total;
}

/** Least squares with a fixed order: x nearest to `wanted` such that neighbours keep `apart`; pooled violators. */
function spaced(wanted, weight, apart) {
  const blocks = [];
  let shift = 0;
  for (let i = 0; i < wanted.length; i++) {
    if (i) shift += apart[i - 1];
    blocks.push({sum: (wanted[i] - shift) * weight[i], weight: weight[i], count: 1});
    while (blocks.length > 1) {
      const b = blocks[blocks.length - 1], a = blocks[blocks.length - 2];
      if (a.sum / a.weight <= b.sum / b.weight) break;
      blocks.pop();
      a.sum += b.sum; a.weight += b.weight; a.count += b.count;
    }
  }
  const x = [];
  shift = 0;
  for (const block of blocks) for (let k = 0; k < block.count; k++) {
    if (x.length) shift += apart[x.length - 1];
    x.push(block.sum / block.weight + shift);
  }
  return x;
}

/**
 * Positions. `size(node)` is {w, h}; `columns` is a number of columns, or {width, height} to choose one that fills
 * such a pane. Returns boxes by node, edge pieces, and the size of the whole.
 */
function placed(plan, size, columns) {
  const sizes = plan.items.map(item => item.node < 0 ? {w: 0, h: 0} : size(item.node));
  return inColumns(plan, sizes, typeof columns === "number" ? columns : best(plan, sizes, columns));
}

/** The number of columns with which the whole is seen largest in `pane`, judged by the layout in one column. */
function best(plan, sizes, pane) {
  const {items, layers} = plan, x = new Array(items.length).fill(0);
  align(plan, spacing(plan, sizes), 0, layers.length, x);
  const heights = layers.map(row => row.reduce((h, id) => Math.max(h, sizes[id].h), 0));
  const lows = layers.map(row => row.reduce((low, id) => Math.min(low, x[id] - sizes[id].w / 2), Infinity));
  const highs = layers.map(row => row.reduce((high, id) => Math.max(high, x[id] + sizes[id].w / 2), -Infinity));
  let chosen = 1, largest = 0;
  for (let number = 1; number <= Math.max(1, Math.min(40, Math.floor(layers.length / 3))); number++) {
    const cuts = cut(plan, heights, number);
    let width = -GUTTER, height = 0;
    cuts.forEach((from, c) => {
      const to = c + 1 < cuts.length ? cuts[c + 1] : layers.length;
      width += Math.max(...highs.slice(from, to)) - Math.min(...lows.slice(from, to)) + GUTTER + 2 * LANE;
      height = Math.max(height, heights.slice(from, to).reduce((a, b) => a + b + GAP_Y, number > 1 ? 4 * LANE : 0));
    });
    const scale = Math.min(pane.width / width, pane.height / height);
    if (scale > largest * 1.02) { chosen = number; largest = scale; }
  }
  return chosen;
}

/** For each layer, how far the middles of neighbours must be apart. */
function spacing(plan, sizes) {
  const {items, layers} = plan;
  const gap = (a, b) => items[a].node < 0 && items[b].node < 0 ? GAP_WAY
    : items[a].node < 0 || items[b].node < 0 ? (GAP_X + GAP_WAY) / 2 : GAP_X;
  return layers.map(row => row.slice(1).map((id, i) => (sizes[row[i]].w + sizes[id].w) / 2 + gap(row[i], id)));
}

function inColumns(plan, sizes, columns) {
  const {items, layers} = plan;
  const heights = layers.map(row => row.reduce((h, id) => Math.max(h, sizes[id].h), 0));
  const apart = spacing(plan, sizes);
  const cuts = cut(plan, heights, columns);
  const x = new Array(items.length).fill(0), y = new Array(items.length).fill(0), column = new Array(layers.length);
  const tops = [], bottoms = [], lefts = [], rights = [];
  const lanes = cuts.slice(1).map(k => layers[k - 1].filter(id => items[id].down.length).length);
  let left = 0, width = 0, height = 0;
  const laneRoom = lanes.reduce((a, b) => Math.max(a, b), 0) * LANE;
  for (let c = 0; c < cuts.length; c++) {
    const from = cuts[c], to = c + 1 < cuts.length ? cuts[c + 1] : layers.length;
    align(plan, apart, from, to, x);
    let low = Infinity, high = -Infinity;
    for (let k = from; k < to; k++) for (const id of layers[k]) {
      low = Math.min(low, x[id] - sizes[id].w / 2);
      high = Math.max(high, x[id] + sizes[id].w / 2);
    }
    let top = cuts.length > 1 ? laneRoom : 0;
    tops.push(top);
    for (let k = from; k < to; k++) {
      column[k] = c;
      for (const id of layers[k]) {
        x[id] += left - low;
        y[id] = top + heights[k] / 2;
      }
      top += heights[k] + GAP_Y;
    }
    bottoms.push(top - GAP_Y);
    lefts.push(left);
    rights.push(left + high - low);
    width = left + high - low;
    height = Math.max(height, top - GAP_Y);
    left = width + GUTTER + (lanes[c] || 0) * LANE;
  }
  const boxes = [];
  for (let v = 0; v < plan.count; v++) {
    boxes.push({x: x[v] - sizes[v].w / 2, y: y[v] - sizes[v].h / 2, w: sizes[v].w, h: sizes[v].h, column: column[items[v].layer]});
  }
  const pieces = new Map(); // "item,item" -> points: a cubic for neighbours, a polyline around a column's end
  let total = height + (cuts.length > 1 ? laneRoom : 0);
  for (let c = 0; c < cuts.length; c++) {
    const from = cuts[c], to = c + 1 < cuts.length ? cuts[c + 1] : layers.length;
    for (let k = from; k < to; k++) {
      let lane = 0;
      for (const id of layers[k]) {
        const bottom = y[id] + sizes[id].h / 2;
        if (k + 1 < to) {
          for (const other of items[id].down) {
            pieces.set(id + "," + other, {
              kind: "curve", column: c,
              points: [x[id], bottom, x[id], y[id] + heights[k] / 2, x[other], y[other] - heights[k + 1] / 2, x[other], y[other] - sizes[other].h / 2],
            });
          }
        } else if (items[id].down.length) {
          const under = bottoms[c] + 14 + lane * LANE, gutter = rights[c] + GUTTER / 2 + lane * LANE;
          for (const other of items[id].down) {
            pieces.set(id + "," + other, {
              kind: "around", column: c,
              points: [x[id], bottom, x[id], under, gutter, under, gutter, tops[c + 1] - 14 - lane * LANE, x[other], tops[c + 1] - 14 - lane * LANE, x[other], y[other] - sizes[other].h / 2],
            });
          }
          lane++;
        }
      }
    }
  }
  for (const [a, b] of plan.straight) {
    const p = boxes[a], q = boxes[b];
    const side = Math.max(p.x + p.w, q.x + q.w) + 30;
    pieces.set(a + "," + b, {
      kind: "far", column: p.column,
      points: [p.x + p.w / 2, p.y + p.h, side, p.y + p.h + 60, side, q.y - 60, q.x + q.w / 2, q.y],
    });
  }
  return {boxes, pieces, width, height: total, columns: cuts.length};
}

/** The layers that columns begin with: columns of about one height, cut where few edges pass. */
function cut(plan, heights, number) {
  const {items, layers} = plan, count = layers.length;
  if (!count) return [0];
  const ends = [];
  let total = 0;
  for (const h of heights) ends.push(total += h + GAP_Y);
  const passing = k => layers[k - 1].filter(id => items[id].down.length).length;
  const cuts = [0];
  for (let c = 1; c < number; c++) {
    const goal = total * c / number, slack = total / number * 0.13;
    let choice = -1, least = Infinity;
    for (let k = cuts[cuts.length - 1] + 2; k < count - 1; k++) {
      const off = Math.abs(ends[k - 1] - goal);
      if (off > slack && choice >= 0 && ends[k - 1] > goal) break;
      const cost = passing(k) + (off > slack ? 1000 : 0) + off / slack;
      if (cost < least) { least = cost; choice = k; }
    }
    if (choice > 0) cuts.push(choice);
  }
  return cuts;
}

/** x of the items of layers [from, to): each towards the middle of its neighbours; waypoints pull to stay straight. */
function align(plan, apart, from, to, x) {
  const {items, layers} = plan;
  for (let k = from; k < to; k++) {
    let at = 0;
    const row = layers[k], whole = apart[k].reduce((a, b) => a + b, 0);
    row.forEach((id, i) => { x[id] = at - whole / 2; at += apart[k][i] || 0; });
  }
  const pull = (id, links) => {
    let sum = 0, weight = 0;
    for (const other of links) {
      const at = items[other].layer;
      if (at < from || at >= to) continue;
      const w = items[id].node < 0 && items[other].node < 0 ? 8 : items[other].node < 0 ? 1.5 : 1;
      sum += x[other] * w;
      weight += w;
    }
    return [sum, weight];
  };
  for (let round = 0; round < 14; round++) {
    const down = round % 2 === 0, both = round >= 10;
    for (let i = 0; i < to - from; i++) {
      const k = down ? from + i : to - 1 - i, row = layers[k], wanted = [], weight = [];
      for (const id of row) {
        let [sum, w] = pull(id, down ? items[id].up : items[id].down);
        if (both || !w) {
          const [more, other] = pull(id, down ? items[id].down : items[id].up);
          sum += more; w += other;
        }
        wanted.push(w ? sum / w : x[id]);
        weight.push(w ? (items[id].node < 0 ? 4 : 1) + w : 0.1);
      }
      spaced(wanted, weight, apart[k]).forEach((value, i) => { x[row[i]] = value; });
    }
  }
  drawIn(plan, apart, from, to, x);
}

/** Long edges move as one, as near to the boxes as their neighbours allow: nothing else holds them. */
function drawIn(plan, apart, from, to, x) {
  const {items, layers} = plan, left = new Map(), right = new Map();
  for (let k = from; k < to; k++) layers[k].forEach((id, i) => {
    if (i) { left.set(id, [layers[k][i - 1], apart[k][i - 1]]); right.set(layers[k][i - 1], [id, apart[k][i - 1]]); }
  });
  let sum = 0, count = 0;
  for (let k = from; k < to; k++) for (const id of layers[k]) if (items[id].node >= 0) { sum += x[id]; count++; }
  const runs = [];
  for (let k = from; k < to; k++) for (const id of layers[k]) {
    if (items[id].node >= 0 || (k > from && items[items[id].up[0]].node < 0)) continue;
    const run = [id];
    for (let at = id; ;) {
      at = items[at].down.find(other => items[other].node < 0);
      if (at === undefined || items[at].layer >= to) break;
      run.push(at);
    }
    runs.push({run, off: run.reduce((total, i) => total + x[i], 0) / run.length - (count ? sum / count : 0)});
  }
  runs.sort((a, b) => Math.abs(a.off) - Math.abs(b.off));
  for (const {run, off} of runs) {
    let slack = Math.abs(off);
    for (const id of run) {
      const beside = (off > 0 ? left : right).get(id);
      if (beside) slack = Math.min(slack, Math.abs(x[id] - x[beside[0]]) - beside[1]);
    }
    if (slack > 0) for (const id of run) x[id] -= Math.sign(off) * slack;
  }
}
