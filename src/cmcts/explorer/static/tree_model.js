// A search tree from its columns: which rows there are, made only when somebody unfolds them.
//
// A row is an action of a node, or one of several outcomes of an action. An action with one outcome is one row: what is
// below it is below that outcome.

const TERMINAL = 1;
const NOTHING_SAFE = 2;
const REFUSED = -2; // in edgeVisits

class TreeModel {
  constructor(arrays, decision, model) {
    Object.assign(this, arrays);
    this.decision = decision;
    this.actionNames = model.actions;
    this.costNames = model.costs;
    this.costCount = model.costs.length;
    this.nodeCount = this.parent.length;
    this.stateSize = this.state.length / this.nodeCount;
    this.#listChildren();
    this.#findPrincipalLine();
    this.root = { kind: "root", node: 0, edge: -1, level: 0, parent: null, open: true, rows: null, principal: true };
  }

  // Children of node n: children[firstChild[n]] to children[firstChild[n + 1] - 1]. Parents are older than children.
  #listChildren() {
    const first = new Int32Array(this.nodeCount + 2);
    for (let n = 1; n < this.nodeCount; n++) first[this.parent[n] + 2]++;
    for (let n = 2; n < first.length; n++) first[n] += first[n - 1];
    this.children = new Int32Array(this.nodeCount - 1);
    this.depth = new Int32Array(this.nodeCount);
    for (let n = 1; n < this.nodeCount; n++) {
      this.children[first[this.parent[n] + 1]++] = n;
      this.depth[n] = this.depth[this.parent[n]] + 1;
    }
    this.firstChild = first;
  }

  // What was chosen, then what is visited most.
  #findPrincipalLine() {
    this.principalEdges = new Set();
    this.principalNodes = new Set([0]);
    let node = 0;
    for (;;) {
      let best = -1;
      for (let e = this.firstEdge[node]; e < this.firstEdge[node + 1]; e++) {
        const better =
          node === 0
            ? this.edgeAction[e] === this.decision.action
            : this.edgeVisits[e] > 0 && (best < 0 || this.edgeVisits[e] > this.edgeVisits[best]);
        if (better) best = e;
      }
      const outcomes = best < 0 ? [] : this.outcomes(node, this.edgeAction[best]);
      if (best >= 0) this.principalEdges.add(best);
      if (outcomes.length === 0) return;
      [node] = outcomes;
      this.principalNodes.add(node);
    }
  }

  // Most visited first.
  outcomes(node, action) {
    const found = [];
    for (let k = this.firstChild[node]; k < this.firstChild[node + 1]; k++) {
      if (this.action[this.children[k]] === action) found.push(this.children[k]);
    }
    return found.sort((a, b) => this.visits[b] - this.visits[a]);
  }

  stateOf(node) {
    return this.state.subarray(node * this.stateSize, (node + 1) * this.stateSize);
  }

  // What is left at a node, in discounted units of its own time.
  left(node) {
    const { budget, cost_discounts: discounts } = this.decision;
    return budget.map((b, m) => (b - this.path[node * this.costCount + m]) / discounts[m] ** this.depth[node]);
  }

  costs(edge) {
    return this.edgeCost.subarray(edge * this.costCount, (edge + 1) * this.costCount);
  }

  isRefused(edge) {
    return this.edgeVisits[edge] === REFUSED;
  }

  // Why an action was refused at a node, in the words of Decision.reason.
  reason(node, edge) {
    const { pruning, cost_scale: scales } = this.decision;
    const left = this.left(node);
    return left
      .map((have, m) => {
        if (!(this.edgeRefusedBy[edge] & (1 << m))) return null;
        const mean = this.edgeMean[edge * this.costCount + m];
        const sigma = this.edgeSigma[edge * this.costCount + m];
        const which = left.length > 1 ? `${this.costNames[m]}: ` : "";
        const unsure = sigma > (pruning.sigma_max ?? Infinity) * scales[m];
        if (unsure || mean - pruning.tolerance * scales[m] <= have || mean <= FREE * scales[m]) {
          return `${which}immediate cost exceeds the ${general(have, 3)} left`;
        }
        const digits = [4, 5, 6].find((k) => general(mean, k) !== general(have, k)) || 7;
        return `${which}critic predicts ${general(mean, digits)} ± ${general(sigma, 2)}, ${general(have, digits)} left`;
      })
      .filter(Boolean)
      .join("; ");
  }

  // The rows below one, made once.
  below(row) {
    if (row.rows) return row.rows;
    const outcomes = row.kind === "action" ? row.outcomes : [row.node];
    if (row.kind === "action" && outcomes.length > 1) {
      const total = outcomes.reduce((sum, node) => sum + this.visits[node], 0);
      row.rows = outcomes.map((node) => ({
        kind: "outcome",
        node,
        edge: row.edge,
        from: row.node,
        level: row.level + 1,
        parent: row,
        open: false,
        rows: null,
        share: this.visits[node] / total,
        principal: row.principal && this.principalNodes.has(node),
      }));
    } else {
      row.rows = outcomes.length ? this.#actionRows(outcomes[0], row) : [];
    }
    return row.rows;
  }

  #actionRows(node, parent) {
    const rows = [];
    for (let edge = this.firstEdge[node]; edge < this.firstEdge[node + 1]; edge++) {
      const outcomes = this.outcomes(node, this.edgeAction[edge]);
      const principal = this.principalEdges.has(edge);
      rows.push({
        kind: "action",
        node,
        edge,
        level: parent.level + 1,
        parent,
        open: false,
        rows: null,
        outcomes,
        principal,
      });
    }
    return rows.sort((a, b) => this.#rank(b.edge) - this.#rank(a.edge));
  }

  #rank(edge) {
    return this.edgeVisits[edge] + (this.principalEdges.has(edge) ? 1e9 : 0);
  }

  // The node whose actions stand below a row, if there is one.
  nodeBelow(row) {
    if (row.kind !== "action") return row.node;
    return row.outcomes.length === 1 ? row.outcomes[0] : null;
  }

  canOpen(row) {
    if (row.kind === "action" && row.outcomes.length > 1) return true;
    const node = this.nodeBelow(row);
    return node !== null && this.firstEdge[node + 1] > this.firstEdge[node];
  }

  // All rows that are unfolded, in order.
  visible(wanted) {
    const out = [];
    const walk = (row) => {
      out.push(row);
      if (row.open) for (const child of this.below(row)) if (wanted(child)) walk(child);
    };
    walk(this.root);
    return out;
  }

  unfold(row, levels) {
    if (levels === 0 || !this.canOpen(row)) return;
    row.open = true;
    for (const child of this.below(row)) this.unfold(child, levels - 1);
  }

  // How many levels below a row are unfolded everywhere.
  openLevels(row) {
    if (!this.canOpen(row)) return Infinity;
    return row.open ? 1 + Math.min(...this.below(row).map((child) => this.openLevels(child))) : 0;
  }

  fold(row) {
    row.open = false;
    for (const child of row.rows || []) this.fold(child);
  }

  unfoldPrincipalLine(levels = Infinity) {
    for (let row = this.root, next; row && row.level < levels; row = next) {
      next = this.below(row).find((child) => child.principal);
      if (next) row.open = true;
    }
  }

  // Unfold the way to a node, and return its row.
  reveal(node) {
    const way = [];
    for (let n = node; n > 0; n = this.parent[n]) way.unshift(n);
    let row = this.root;
    for (const next of way) {
      row.open = true;
      row = this.below(row).find(
        (child) => child.kind === "action" && this.edgeAction[child.edge] === this.action[next],
      );
      if (row.outcomes.length > 1) {
        row.open = true;
        row = this.below(row).find((child) => child.node === next);
      }
    }
    return row;
  }

  // Nodes whose state begins with these numbers; "*" is any number.
  search(text) {
    const wanted = text
      .replace(/[()[\]]/g, " ")
      .split(/[\s,]+/)
      .filter(Boolean);
    if (wanted.length === 0 || wanted.length > this.stateSize) return [];
    const found = [];
    for (let node = 0; node < this.nodeCount; node++) {
      const at = node * this.stateSize;
      if (
        wanted.every(
          (word, k) => word === "*" || general(this.state[at + k], 3) === word || this.state[at + k] === Number(word),
        )
      )
        found.push(node);
    }
    return found.sort((a, b) => this.visits[b] - this.visits[a]);
  }
}
