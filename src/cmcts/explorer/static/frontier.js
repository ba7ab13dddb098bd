// What any budget buys, what was mixed for this one, and what each column does.

function frontierView(app) {
  const { frontier } = app.data;
  const panels = [];
  if (frontier.points.length > 1)
    panels.push(
      el(
        "section",
        { class: "panel" },
        el("h2", {}, "What a budget buys"),
        el(
          "p",
          { class: "words" },
          "Mean discounted reward in the training world, by the best mixture for each budget; the band is its 95 % interval.",
        ),
        frontierChart(app),
      ),
    );
  panels.push(
    el(
      "section",
      { class: "panel" },
      el("h2", {}, "Its columns"),
      el("p", { class: "words" }, mixtureWords(app)),
      el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "columns" }, columnTable(app)),
    ),
  );
  return panels;
}

function mixtureWords({ data, model }) {
  const { chosen } = data.frontier;
  const parts = chosen.mixture.map(({ share, policy }) => `${percent(share)} ${policy}`);
  const limits = chosen.budget.map((limit, m) =>
    model.costs.length > 1 ? `${model.costs[m]} ${general(limit)}` : general(limit),
  );
  const mixed = `For a budget of ${limits.join(", ")}: ${parts.join(", ")}.`;
  // At the end of what was measured a program has no price to tell.
  if (chosen.prices.every((lambda) => lambda === 0)) return mixed;
  return `${mixed} One more unit of budget would earn ${chosen.prices.map((lambda) => general(lambda, 3)).join(", ")}.`;
}

function columnTable(app) {
  const { columns } = app.data.frontier;
  const heads = ["", "column", "", "share", "reward", ...app.model.costs].map((name, k) =>
    el("th", { scope: "col", class: k < 3 ? "text" : null }, name),
  );
  const rows = columns.map((column) => {
    const episode = el(
      "button",
      {
        type: "button",
        class: "link",
        "aria-label": `episode of column ${column.letter}`,
        onclick: () => app.openEpisode(column.episode),
      },
      "its episode",
    );
    return el(
      "tr",
      { class: column.share > 0 ? "chosen" : null },
      el("td", { class: "text" }, el("b", {}, column.letter)),
      el("th", { scope: "row", class: "text" }, column.name),
      el("td", { class: "text" }, episode),
      el("td", {}, column.share > 0 ? percent(column.share) : "–"),
      el("td", {}, `${fixed(column.reward, 2)} ± ${fixed((column.interval[1] - column.interval[0]) / 2, 2)}`),
      column.costs.map((cost) => el("td", {}, fixed(cost))),
    );
  });
  return el("table", {}, el("thead", {}, el("tr", {}, heads)), el("tbody", {}, rows));
}

function frontierChart(app) {
  const { points, columns, chosen } = app.data.frontier;
  const holder = el("div", { class: "chart" });
  const draw = () => {
    const width = Math.max(300, holder.clientWidth);
    const height = Math.max(240, Math.min(420, width * 0.45));
    const budgets = points.map((point) => point.budget[0]);
    const rewards = [
      ...points.flatMap((point) => [...point.reward_interval, point.optimum ?? point.reward_mean]),
      ...columns.map((column) => column.reward),
    ];
    const right = Math.max(...budgets, chosen.budget[0]);
    const x = scale(Math.min(...budgets), right, 52, width - 18);
    const y = scale(Math.min(...rewards), Math.max(...rewards), height - 42, 14);
    const line = (of) =>
      points
        .filter((point) => of(point) !== null)
        .map((point, k) => `${k ? "L" : "M"}${x(point.budget[0])} ${y(of(point))}`)
        .join("");
    const band = `${line((point) => point.reward_interval[1])}${[...points]
      .reverse()
      .map((point) => `L${x(point.budget[0])} ${y(point.reward_interval[0])}`)
      .join("")}Z`;
    const chart = svg("svg", {
      viewBox: `0 0 ${width} ${height}`,
      height,
      role: "img",
      "aria-label": `reward against budget for ${app.model.costs[0]}`,
    });
    for (const tick of ticks(Math.min(...budgets), right, width / 110))
      chart.append(
        svg("path", { class: "grid", d: `M${x(tick)} 14V${height - 42}` }),
        svg("text", { class: "tick", x: x(tick), y: height - 26, "text-anchor": "middle" }, general(tick)),
      );
    for (const tick of ticks(Math.min(...rewards), Math.max(...rewards), height / 60))
      chart.append(
        svg("path", { class: "grid", d: `M52 ${y(tick)}H${width - 18}` }),
        svg("text", { class: "tick", x: 46, y: y(tick) + 4, "text-anchor": "end" }, general(tick)),
      );
    chart.append(
      svg(
        "text",
        { class: "lane", x: width / 2, y: height - 6, "text-anchor": "middle" },
        `budget for ${app.model.costs[0]}`,
      ),
      svg("path", { class: "chosen-budget", d: `M${x(chosen.budget[0])} 14V${height - 42}` }),
      svg("path", { class: "band", d: band }),
      svg("path", { class: "optimum-line", d: line((point) => point.optimum) }),
      svg("path", { class: "frontier-line", d: line((point) => point.reward_mean) }),
      ...columns
        .filter((column) => column.costs[0] <= right)
        .map((column) =>
          svg(
            "g",
            {
              class: "column-mark",
              tip: `${column.letter}: ${column.name}\nreward ${fixed(column.reward, 2)}, ${app.model.costs[0]} ${fixed(column.costs[0])}`,
            },
            svg("rect", {
              x: x(column.costs[0]) - 4,
              y: y(column.reward) - 4,
              width: 8,
              height: 8,
              transform: `rotate(45 ${x(column.costs[0])} ${y(column.reward)})`,
            }),
            svg("text", { x: x(column.costs[0]), y: y(column.reward) + 18, "text-anchor": "middle" }, column.letter),
          ),
        ),
      ...points.map((point) =>
        svg("circle", {
          class: "frontier-dot",
          tabindex: 0,
          role: "img",
          "aria-label": pointWords(point),
          cx: x(point.budget[0]),
          cy: y(point.reward_mean),
          r: 5,
          tip: pointWords(point),
        }),
      ),
    );
    holder.replaceChildren(chart);
  };
  new ResizeObserver(draw).observe(holder);
  const key = (kind, words) =>
    el(
      "span",
      {},
      svg(
        "svg",
        { class: "key", width: 26, height: 10, "aria-hidden": "true" },
        svg("path", { class: kind, d: "M1 5H25" }),
      ),
      ` ${words}`,
    );
  const known = points.some((point) => point.optimum !== null);
  return el(
    "div",
    {},
    holder,
    el(
      "p",
      { class: "legend" },
      key("frontier-line", "frontier"),
      known && key("optimum-line", "optimum, exact"),
      key("chosen-budget", "this budget"),
      el("span", {}, "◆ a column, at its mean cost"),
    ),
  );
}

function pointWords(point) {
  const mixture = point.mixture
    .map(({ share, letter, policy }) => `${percent(share)} ${letter} (${policy})`)
    .join(", ");
  const [low, high] = point.reward_interval;
  return [
    `budget ${general(point.budget[0])}: reward ${fixed(point.reward_mean, 2)} (${fixed(low, 2)} to ${fixed(high, 2)})`,
    point.optimum === null ? null : `optimum ${fixed(point.optimum, 2)}`,
    `${percent(point.over_budget)} of the episodes over it`,
    mixture,
  ]
    .filter(Boolean)
    .join("\n");
}
