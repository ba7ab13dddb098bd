// The tree as an outline with branches: as wide as they were visited, coloured by what they cost. Only rows in sight are
// in the document.

const ROW = 30;
const MANY_ROWS = 50_000;
const INDENT = 22; // of a level; half of it where there is little room

function treePanel(app) {
  const { decision } = app;
  if (!decision) return null;
  const packed = decision.tree;
  const panel = el("section", { class: "panel tree-panel", "aria-label": "search tree" });
  const size =
    packed &&
    (packed.shown < packed.nodes
      ? `the ${count(packed.shown)} most visited of ${count(packed.nodes)} nodes`
      : plural(packed.nodes, "node"));
  panel.append(
    el("h2", {}, "Tree ", el("small", { class: "node-count" }, packed ? `${size}, ${decision.tree_depth} deep` : "")),
  );
  if (!packed) {
    panel.append(
      el(
        "p",
        {},
        decision.iterations
          ? "The tree was not kept: plan with keep_tree=True."
          : "Looked up, not searched: there is no tree.",
      ),
    );
    return panel;
  }
  const waiting = el("p", { class: "quiet" }, "reading the tree …");
  panel.append(waiting);
  unpack(packed).then((arrays) => {
    if (!panel.isConnected) return;
    waiting.remove();
    new TreeView(panel, new TreeModel(arrays, decision, app.model));
    document.documentElement.dataset.tree = "ready"; // for whoever waits for it, and how long it took
    performance.mark("tree ready");
  });
  return panel;
}

class TreeView {
  constructor(panel, model) {
    this.model = model;
    this.selected = model.root;
    this.shown = { refused: true, untried: false };
    this.found = [];
    this.canvas = svg("svg", { class: "branches", "aria-hidden": "true" });
    this.list = el("div", { class: "rows" });
    this.space = el("div", { class: "space" }, this.canvas, this.list);
    this.scroller = el(
      "div",
      {
        class: "tree",
        role: "tree",
        tabindex: 0,
        "aria-label": "search tree: arrow keys move, right unfolds, left folds",
        onscroll: () => this.#draw(),
        onkeydown: (event) => this.#key(event),
      },
      this.space,
    );
    panel.append(this.#tools(), legend(Boolean(model.edgeRefusedBy)), treeHead(), this.scroller);
    model.unfoldPrincipalLine(3);
    this.update();
    new ResizeObserver(() => this.#draw()).observe(this.scroller);
  }

  #tools() {
    const button = (words, tip, act) =>
      el(
        "button",
        {
          type: "button",
          tip,
          onclick: () => {
            act();
            this.update();
          },
        },
        words,
      );
    this.matches = el("output", { class: "quiet", "aria-live": "polite" });
    const box = el("input", {
      type: "search",
      placeholder: "state, e.g. 3, *",
      "aria-label": "search by state: its first numbers, * for any",
      oninput: () => this.#search(box.value),
      onkeydown: (event) => {
        if (event.key === "Enter") {
          event.preventDefault();
          this.#next(event.shiftKey ? -1 : 1);
        }
      },
    });
    const option = (kind) => {
      const box = el("input", {
        type: "checkbox",
        checked: this.shown[kind],
        onchange: () => {
          this.shown[kind] = box.checked;
          this.update();
        },
      });
      return el("label", {}, box, ` ${kind}`);
    };
    return el(
      "div",
      { class: "tools" },
      button("1 level", "unfold one level more below the selected row", () => this.#unfoldMore(1)),
      button("3 levels", "unfold three levels more below the selected row", () => this.#unfoldMore(3)),
      button("fold", "fold all that is below the selected row", () => {
        this.model.fold(this.selected);
        this.model.root.open = true;
      }),
      button("principal line", "what was chosen, and then visited most", () => this.model.unfoldPrincipalLine()),
      this.model.edgeRefusedBy && option("refused"),
      option("untried"),
      el(
        "span",
        { class: "search" },
        box,
        el("button", { type: "button", "aria-label": "next match", onclick: () => this.#next(1) }, "next"),
        this.matches,
      ),
    );
  }

  // One click, several levels, counted from what is unfolded already; more rows than anybody reads are enough.
  #unfoldMore(levels) {
    for (let level = 0; level < levels && this.rows.length < MANY_ROWS; level++) {
      const open = this.model.openLevels(this.selected);
      if (open === Infinity) return;
      this.model.unfold(this.selected, open + 1);
      this.update();
    }
  }

  update() {
    this.rows = this.model.visible((row) => this.shown[this.#figures(row).kind] !== false);
    this.rows.forEach((row, index) => {
      row.index = index;
    });
    if (this.rows[this.selected.index] !== this.selected) this.selected = this.model.root; // it is hidden now
    this.space.style.height = `${this.rows.length * ROW + 8}px`;
    this.#draw();
  }

  select(row, focus = true) {
    this.selected = row;
    const top = row.index * ROW;
    const { scrollTop, clientHeight } = this.scroller;
    const outOfSight = top < scrollTop - ROW || top > scrollTop + clientHeight;
    if (outOfSight) this.scroller.scrollTop = top - clientHeight / 2;
    else this.scroller.scrollTop = Math.max(Math.min(scrollTop, top), top + ROW + 8 - clientHeight);
    if (focus) this.scroller.focus({ preventScroll: true });
    this.#draw();
  }

  toggle(row) {
    if (row.open) this.model.fold(row);
    else this.model.unfold(row, 1);
    this.update();
    this.select(row);
  }

  #draw() {
    this.indent = this.scroller.clientWidth < 600 ? INDENT / 2 : INDENT;
    const from = Math.max(0, Math.floor(this.scroller.scrollTop / ROW) - 4);
    const to = Math.min(this.rows.length, from + Math.ceil(this.scroller.clientHeight / ROW) + 8);
    const shown = this.rows.slice(from, to);
    this.list.replaceChildren(...shown.map((row) => this.#row(row)));
    this.list.style.top = `${from * ROW}px`;
    this.#branches(from, to);
    this.scroller.setAttribute("aria-activedescendant", `row-${this.selected.index}`);
  }

  // From each row in sight back to its parent's.
  #branches(from, to) {
    const most = Math.max(1, this.model.visits[0]);
    const x = (row) => 12 + row.level * this.indent;
    const paths = [];
    const top = (from - 1) * ROW; // where the canvas begins: it is as high as what is in sight
    const drawn = new Set();
    const branch = (row) => {
      if (!row.parent || drawn.has(row)) return;
      drawn.add(row);
      const { visits, kind } = this.#figures(row);
      const y = Math.min((row.index + 0.5) * ROW, (to + 1) * ROW) - top;
      const start = Math.max(0, (row.parent.index + 0.5) * ROW - top);
      paths.push(
        svg("path", {
          class: `branch ${kind}${row.principal ? " principal" : ""}`,
          d: `M${x(row.parent)} ${start}V${y - 8}Q${x(row.parent)} ${y} ${x(row.parent) + 8} ${y}H${x(row) - 4}`,
          "stroke-width": visits > 0 ? 1 + 7 * Math.sqrt(visits / most) : 1,
        }),
      );
    };
    for (let index = from; index < to; index++) branch(this.rows[index]);
    // Trunks that pass by: the next sibling of an ancestor may be below what is in sight.
    for (let row = this.rows[to - 1]; row && row.parent; row = row.parent) {
      for (const sibling of row.parent.rows) {
        if (sibling.index >= to && this.rows[sibling.index] === sibling) {
          branch(sibling);
          break;
        }
      }
    }
    this.canvas.style.top = `${top}px`;
    this.canvas.setAttribute("height", (to - from + 2) * ROW);
    this.canvas.replaceChildren(...paths.reverse());
  }

  // How often a row was visited, and what kind of branch leads to it.
  #figures(row) {
    const { model } = this;
    if (row.kind === "root") return { visits: model.visits[0], kind: "free" };
    const node = row.kind === "outcome" ? row.from : row.node;
    if (model.isRefused(row.edge)) return { visits: 0, kind: "refused" };
    const visits = row.kind === "outcome" ? model.visits[row.node] : model.edgeVisits[row.edge];
    if (visits <= 0) return { visits: 0, kind: "untried" };
    return { visits, kind: burdenClass(burden(model.costs(row.edge), model.left(node), model.decision.cost_scale)) };
  }

  #row(row) {
    const { model } = this;
    const { visits, kind } = this.#figures(row);
    const openable = model.canOpen(row);
    const node = model.nodeBelow(row);
    const words = this.#words(row, kind);
    const numbers =
      row.kind === "action" && visits > 0
        ? [
            ["value", fixed(model.edgeReward[row.edge], 2)],
            ["cost", Array.from(model.costs(row.edge), (cost) => fixed(cost, 2)).join(" | ")],
          ]
        : [];
    const item = el(
      "div",
      {
        class: `row ${kind} ${row.kind}${row.principal ? " principal" : ""}${row === this.selected ? " selected" : ""}`,
        id: `row-${row.index}`,
        role: "treeitem",
        "aria-level": row.level + 1,
        "aria-selected": String(row === this.selected),
        "aria-expanded": openable ? String(row.open) : null,
        tip: words,
        onclick: (event) => {
          if (event.shiftKey) {
            model.unfold(row, 3);
            this.update();
            this.select(row);
          } else if (openable) this.toggle(row);
          else this.select(row);
        },
      },
      el("span", { class: "caret", "aria-hidden": "true" }, openable ? (row.open ? "▾" : "▸") : "·"),
      el("span", { class: "name" }, this.#name(row)),
      node !== null && row.kind !== "root" && el("span", { class: "state" }, stateText(model.stateOf(node))),
      kind === "refused" && el("span", { class: "tag refused" }, "refused"),
      kind === "untried" && el("span", { class: "quiet" }, "not tried"),
      node !== null && model.flags[node] & TERMINAL ? el("span", { class: "tag end" }, "end") : null,
      node !== null && model.flags[node] & NOTHING_SAFE ? el("span", { class: "tag unsafe" }, "▲ nothing safe") : null,
      el("span", { class: "fill" }),
      numbers.map(([name, value]) => el("span", { class: `number ${name}` }, value)),
      visits > 0 && el("span", { class: "number visits" }, count(visits)),
    );
    item.style.paddingLeft = `${4 + row.level * this.indent}px`;
    return item;
  }

  #name(row) {
    if (row.kind === "root") return `now: ${stateText(this.model.stateOf(0))}`;
    if (row.kind === "outcome") return percent(row.share);
    return this.model.actionNames[this.model.edgeAction[row.edge]];
  }

  // All that is known of a row, for who points at it.
  #words(row, kind) {
    const { model } = this;
    const name = row.kind === "action" ? this.#name(row) : "";
    if (kind === "refused") return `${name} was refused: ${model.reason(row.node, row.edge)}`;
    if (kind === "untried") return `${name} was kept, but never tried`;
    const costs = (values, digits = 3) =>
      Array.from(
        values,
        (value, m) => (model.costCount > 1 ? `${model.costNames[m]} ` : "") + fixed(value, digits),
      ).join(", ");
    if (row.kind === "action") {
      const lines = [
        `${name}: ${plural(model.edgeVisits[row.edge], "visit")}, value ${fixed(model.edgeReward[row.edge])}`,
        `cost ${costs(model.costs(row.edge))} of the ${costs(model.left(row.node))} left here`,
      ];
      if (model.edgeMean) {
        const at = row.edge * model.costCount;
        const sigma = model.edgeSigma.subarray(at, at + model.costCount);
        lines.push(`critic ${costs(model.edgeMean.subarray(at, at + model.costCount))}, sigma ${costs(sigma)}`);
      }
      if (model.edgeRefusedBy && model.edgeRefusedBy[row.edge])
        lines.push(`unsafe, kept as the least bad: ${model.reason(row.node, row.edge)}`);
      return lines.join("\n");
    }
    const where = `state ${stateText(model.stateOf(row.node))}\n${costs(model.left(row.node))} left here`;
    return row.kind === "root"
      ? where
      : `seen in ${percent(row.share)} of the simulations that took this action\n${where}`;
  }

  #key(event) {
    const { rows, selected, model } = this;
    const move = (index) => this.select(rows[Math.max(0, Math.min(rows.length - 1, index))]);
    const page = Math.max(1, Math.floor(this.scroller.clientHeight / ROW) - 1);
    const acts = {
      ArrowDown: () => move(selected.index + 1),
      ArrowUp: () => move(selected.index - 1),
      ArrowRight: () => (selected.open ? move(selected.index + 1) : model.canOpen(selected) && this.toggle(selected)),
      ArrowLeft: () =>
        selected.open && selected.parent ? this.toggle(selected) : selected.parent && this.select(selected.parent),
      Enter: () => model.canOpen(selected) && this.toggle(selected),
      " ": () => model.canOpen(selected) && this.toggle(selected),
      Home: () => move(0),
      End: () => move(rows.length - 1),
      PageDown: () => move(selected.index + page),
      PageUp: () => move(selected.index - page),
      "*": () => {
        model.unfold(selected, 3);
        this.update();
        this.select(selected);
      },
    };
    if (!acts[event.key]) return;
    event.preventDefault();
    event.stopPropagation();
    acts[event.key]();
  }

  #search(text) {
    this.found = text.trim() ? this.model.search(text) : [];
    this.at = -1;
    this.matches.textContent = text.trim() ? "no such state" : "";
    this.#next(1);
  }

  #next(by) {
    if (!this.found.length) return;
    this.at = (this.at + by + this.found.length) % this.found.length;
    const row = this.model.reveal(this.found[this.at]);
    this.update();
    this.select(row, false);
    this.matches.textContent = `${this.at + 1} of ${count(this.found.length)}`;
  }
}

const treeHead = () =>
  el(
    "div",
    { class: "tree-head", "aria-hidden": "true" },
    el("span", { class: "fill" }, "action, and the state it leads to"),
    ["value", "cost", "visits"].map((name) => el("span", { class: `number ${name}` }, name)),
  );

function legend(prunes) {
  const key = (kind, words) =>
    el(
      "span",
      {},
      svg(
        "svg",
        { class: "key", width: 26, height: 10, "aria-hidden": "true" },
        svg("path", { class: `branch ${kind}`, d: "M1 5H25", "stroke-width": kind === "refused" ? 2 : 5 }),
      ),
      ` ${words}`,
    );
  return el(
    "p",
    { class: "legend" },
    el("span", {}, "Width: visits. Expected cost, of what is left: "),
    key("free", "up to a quarter"),
    key("some", "up to three"),
    key("near", "nearly all"),
    key("over", "more"),
    prunes && key("refused", "refused"),
  );
}
