// The actions of one decision: what the search found, what the critic said, what was refused and by how much.

function decisionPanel(app) {
  const { decision } = app;
  if (!decision) return el("section", { class: "panel decision" }, el("h2", {}, "The end"), el("p", {}, summary(app)));
  return el(
    "section",
    { class: "panel decision", "aria-label": "decision" },
    el(
      "h2",
      {},
      app.replanned ? "Planned again: " : app.currentStep.forced ? "Forced: " : "Decision: ",
      el("strong", { class: "chosen" }, decision.name),
    ),
    el("p", { class: "words" }, decisionWords(app)),
    decision.nothing_safe &&
      el(
        "p",
        { class: "alarm" },
        "▲ Nothing was safe: every legal action was judged unsafe, and the least bad was taken.",
      ),
    app.currentStep?.intervention &&
      el(
        "p",
        { class: "alarm" },
        `◆ The monitor refused ${app.currentStep.intervention.proposed_name}: ${app.currentStep.intervention.reason}`,
      ),
    el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "actions" }, actionTable(app)),
  );
}

function decisionWords({ decision, model }) {
  const refused = decision.actions.filter((row) => row.pruned).length;
  const left = decision.budget.map((b, m) => (model.costs.length > 1 ? `${model.costs[m]} ${general(b)}` : general(b)));
  const parts = [`${left.join(", ")} left to spend.`];
  if (decision.pruning) {
    parts.push(`${refused === 0 ? "None" : refused} of ${decision.actions.length} legal actions refused.`);
  }
  const judged = decision.actions.filter((row) => row.pruned && row.exact);
  if (judged.length)
    parts.push(`By the exact costs ${judged.filter((row) => refusedRightly(row, decision)).length} of these rightly.`);
  if (decision.iterations) parts.push(`${plural(decision.iterations, "simulation")}.`);
  const price = decision.multipliers.some((lambda) => lambda > 0);
  if (price) parts.push(`Price of cost: ${decision.multipliers.map((lambda) => general(lambda)).join(", ")}.`);
  return parts.join(" ");
}

// Whether an action must really cost more than is left, beyond what no critic tells from nothing.
function refusedRightly(row, decision) {
  return row.exact.some((cost, m) => cost > decision.budget[m] + FREE * decision.cost_scale[m]);
}

function tableColumns({ decision, model }) {
  const rows = decision.actions;
  const several = model.costs.length > 1;
  const known = (row) => row.visits > 0 || decision.iterations === 0; // what is looked up is known of every action
  const judged = rows.some((row) => row.critic_mean && [...row.critic_mean, ...row.critic_sigma].some((x) => x !== 0));
  const columns = [
    { name: "action", of: (row) => row.name, text: true },
    decision.pruning && {
      name: "verdict",
      of: (row) => (row.pruned ? 1 + Math.max(0, ...row.excess) : 0),
      verdict: true,
    },
    decision.iterations > 0 && { name: "visits", of: (row) => row.visits, show: (row) => count(row.visits), bar: true },
  ].filter(Boolean);
  if (rows.some((row) => row.probability % 1 > 0)) {
    columns.push({ name: "probability", of: (row) => row.probability, show: (row) => percent(row.probability) });
  }
  columns.push({
    name: "value",
    tip: "discounted reward that the search expects",
    of: (row) => (known(row) ? row.reward_value : null),
  });
  model.costs.forEach((name, m) => {
    columns.push({
      name: several ? name : "cost",
      tip: "discounted cost that the search expects, by the planning model",
      of: (row) => (known(row) ? row.cost_values[m] : null),
    });
  });
  model.costs.forEach((name, m) => {
    if (judged)
      columns.push({
        name: several ? `critic: ${name}` : "critic",
        tip: "what the critic predicts will still be spent, mean ± sigma",
        of: (row) => row.critic_mean[m],
        show: (row) => `${fixed(row.critic_mean[m])} ± ${fixed(row.critic_sigma[m], 2)}`,
      });
    if (rows.some((row) => row.exact))
      columns.push({
        name: several ? `exact: ${name}` : "exact",
        tip: "the least that must really be spent after this action, solved exactly for the real world",
        of: (row) => (row.exact ? row.exact[m] : null),
      });
  });
  return columns;
}

function verdict(row, decision, model) {
  if (!row.pruned) return el("span", { class: "tag kept" }, "kept");
  const by = row.refused_by.map((m, k) => {
    const much = row.excess[k] > 0 ? ` by ${general(row.excess[k], 3)}` : "";
    return `${model.costs.length > 1 ? `${model.costs[m]} ` : ""}over${much}`;
  });
  const word = row.visits > 0 || row.action === decision.action ? "unsafe, least bad" : "refused";
  return el("span", { class: "tag refused", tip: row.reason }, `${word}: ${by.join(", ")}`);
}

function actionTable(app) {
  const { decision, model } = app;
  const columns = tableColumns(app);
  const order = app.tableOrder;
  const sorted = columns.find((column) => column.name === order.column) || columns[0];
  const rows = [...decision.actions].sort((a, b) => compare(sorted.of(a), sorted.of(b)) * (order.down ? -1 : 1));
  const most = Math.max(1, ...decision.actions.map((row) => row.visits));
  const heads = columns.map((column) =>
    el(
      "th",
      {
        scope: "col",
        class: column.text || column.verdict ? "text" : null,
        "aria-sort": column === sorted ? (order.down ? "descending" : "ascending") : "none",
      },
      el("button", { type: "button", tip: column.tip, onclick: () => app.sortBy(column.name) }, column.name),
    ),
  );
  const body = rows.map((row) =>
    el(
      "tr",
      {
        class: [row.action === decision.action && "chosen", row.pruned && "refused"].filter(Boolean).join(" ") || null,
        tabindex: 0,
        "data-row-action": row.action,
        tip: row.reason || null,
        onmouseenter: () => pointAt(row.action),
        onmouseleave: () => pointAt(null),
        onfocus: () => pointAt(row.action),
        onblur: () => pointAt(null),
      },
      columns.map((column) => cell(column, row, most, decision, model)),
    ),
  );
  return el("table", {}, el("thead", {}, el("tr", {}, heads)), el("tbody", {}, body));
}

function cell(column, row, most, decision, model) {
  if (column.verdict) return el("td", { class: "text" }, verdict(row, decision, model));
  if (column.text)
    return el("th", { scope: "row", class: "text" }, row.action === decision.action ? "● " : "", row.name);
  const words = column.show ? column.show(row) : fixed(column.of(row));
  const out = el("td", column.bar ? { class: "bar" } : {}, words);
  if (column.bar) out.style.setProperty("--share", row.visits / most);
  return out;
}

function compare(a, b) {
  if (a === b) return 0;
  if (a === null || a === undefined) return -1;
  if (b === null || b === undefined) return 1;
  return a < b ? -1 : 1;
}
