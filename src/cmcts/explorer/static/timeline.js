// The episode at a glance: reward so far, what is left of each budget, and where something was the matter.

const LANE = 58;
const GUTTER = 122;
const OVERSPENT = 1e-6; // by more than rounding, as in cmcts.evaluation

function timeline(app) {
  const { episode, model } = app;
  const steps = episode.steps;
  const holder = el("div", { class: "timeline-chart" });
  const draw = () => {
    const width = Math.max(320, holder.clientWidth);
    const positions = steps.length + 1;
    const cell = (width - GUTTER - 8) / positions;
    const x = (k) => GUTTER + (k + 0.5) * cell;
    const lanes = 1 + model.costs.length;
    const height = 22 + lanes * (LANE + 12) + 18;
    const chart = svg("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": summary(app) });
    chart.append(
      svg("rect", { class: "cursor", x: x(app.step) - cell / 2, y: 2, width: cell, height: height - 4, rx: 5 }),
    );
    rewardLane(chart, app, x, 24, width);
    model.costs.forEach((name, m) => budgetLane(chart, app, m, x, 24 + (m + 1) * (LANE + 12), cell));
    steps.forEach((step, k) => {
      for (const [shape, words] of marks(step, model)) {
        chart.append(
          svg("text", { class: `mark ${shape}`, x: x(k), y: 16, "text-anchor": "middle", tip: words }, MARKS[shape]),
        );
      }
    });
    const every = Math.ceil(26 / cell);
    for (let k = 0; k < positions; k++) {
      const end = k === steps.length;
      if (end || (k % every === 0 && k + every <= steps.length)) {
        chart.append(
          svg("text", { class: "tick", x: x(k), y: height - 4, "text-anchor": "middle" }, end ? "end" : k + 1),
        );
      }
      chart.append(
        svg("rect", {
          class: "hit",
          x: x(k) - cell / 2,
          y: 0,
          width: cell,
          height,
          tip: stepWords(app, k),
          onclick: () => app.go(k),
        }),
      );
    }
    holder.replaceChildren(chart);
  };
  new ResizeObserver(draw).observe(holder);
  return holder;
}

const MARKS = { unsafe: "▲", intervention: "◆", forced: "★" };

function marks(step, model) {
  const found = [];
  if (step.decision.nothing_safe) found.push(["unsafe", "nothing was safe: the least bad action was taken"]);
  if (step.intervention) {
    const { proposed_name: proposed, reason } = step.intervention;
    found.push(["intervention", `the monitor refused ${proposed}: ${reason}`]);
  }
  if (step.forced) found.push(["forced", `${model.actions[step.decision.action]} was forced`]);
  return found;
}

// A line that rises or falls at each step.
const stairs = (values, x, y) =>
  values.map((value, k) => (k === 0 ? `M${x(0)} ${y(value)}` : `H${x(k)}V${y(value)}`)).join("");

function rewardLane(chart, app, x, top, width) {
  const totals = [0, ...app.episode.steps.map((step) => step.total_reward)];
  const y = scale(Math.min(0, ...totals), Math.max(0, ...totals), top + LANE, top);
  chart.append(
    svg("path", { class: "axis", d: `M${GUTTER} ${y(0)}H${width}` }),
    svg("path", { class: "reward-line", d: stairs(totals, x, y) }),
    svg("circle", { class: "reward-dot", cx: x(app.step), cy: y(totals[app.step]), r: 4.5 }),
    ...laneName("reward so far", fixed(totals[app.step], 2), top),
  );
}

// Bars are what is left of the budget, and what is spent beyond it; the line is what was spent so far.
function budgetLane(chart, app, m, x, top, cell) {
  const budget = app.episode.budget[m];
  const spent = [0, ...app.episode.steps.map((step) => step.total_costs[m])];
  const y = scale(0, Math.max(budget, ...spent) || 1, top + LANE, top);
  const bar = Math.max(2, Math.min(cell - 3, 34));
  const column = (kind, k, amount) =>
    svg("rect", { class: kind, x: x(k) - bar / 2, width: bar, rx: 2, y: y(amount), height: y(0) - y(amount) });
  spent.forEach((cost, k) => {
    chart.append(column("track", k, budget), column("left", k, Math.max(0, budget - cost)));
    if (cost > budget + OVERSPENT) chart.append(column("overspent", k, cost - budget));
  });
  chart.append(svg("path", { class: "cost-line", d: stairs(spent, x, y) }));
  const over = spent[app.step] - budget;
  const left = budget === 0 ? "nothing to spend" : `${general(-over, 3)} of ${general(budget, 3)} left`;
  const alarm = over > OVERSPENT;
  chart.append(...laneName(app.model.costs[m], alarm ? `${general(over, 3)} over` : left, top, alarm));
}

function laneName(name, value, top, alarm = false) {
  const short = name.length > 15 ? `${name.slice(0, 14)}…` : name;
  return [
    svg("text", { class: "lane", x: 2, y: top + 14, tip: name }, short),
    svg("text", { class: alarm ? "lane-value alarm" : "lane-value", x: 2, y: top + 32 }, value),
  ];
}

function stepWords(app, k) {
  const step = app.episode.steps[k];
  if (!step) return app.episode.end.terminated ? "the end" : "cut off here";
  const costs = step.costs.map((cost, m) => `${app.model.costs[m]} ${general(cost)}`).join(", ");
  return [
    `step ${k + 1}: ${app.model.actions[step.decision.action]}, reward ${general(step.reward)}, ${costs}`,
    ...marks(step, app.model).map(([, words]) => words),
  ].join("\n");
}

function summary(app) {
  const last = app.episode.steps.at(-1);
  const costs = last.total_costs.map(
    (cost, m) => `${app.model.costs[m]} ${fixed(cost)} of ${general(app.episode.budget[m])}`,
  );
  return `${plural(app.episode.steps.length, "step")}, reward ${fixed(last.total_reward, 2)}, ${costs.join(", ")}`;
}
