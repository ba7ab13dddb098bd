// What the critic predicts over the map, how sure it is, where it was trained, and how far that is from the truth.

const LEAST = -1;

function criticView(app) {
  const { critic } = app.data;
  const step = app.episodeNumber === 0 ? app.step : 0;
  const number = critic.map_of_step[step];
  const refused = app.data.episodes[0].steps[step]?.decision.actions.find((row) => row.pruned);
  const choice = app.criticChoice || { action: refused ? refused.action : LEAST, constraint: 0 };
  const option = (value, words) => el("option", { value, selected: value === choice.action }, words);
  const pick = el(
    "select",
    { id: "critic-action", onchange: () => app.chooseCritic({ ...choice, action: Number(pick.value) }) },
    option(LEAST, "the cheapest action"),
    app.model.actions.map((name, action) => option(action, name)),
  );
  const which = el(
    "select",
    { id: "critic-cost", onchange: () => app.chooseCritic({ ...choice, constraint: Number(which.value) }) },
    app.model.costs.map((name, m) => el("option", { value: m, selected: m === choice.constraint }, name)),
  );
  const maps = el("div", { class: "maps" }, el("p", { class: "quiet" }, "reading the maps …"));
  unpack(critic.maps[number]).then((arrays) => maps.replaceChildren(...heatMaps(app, critic, arrays, choice, step)));
  return [
    el(
      "section",
      { class: "panel" },
      el("h2", {}, "What the critic expects"),
      el(
        "p",
        { class: "words" },
        `The cost still to come after an action taken on each square, with all else as at step ${step + 1} of the first episode.`,
      ),
      el(
        "div",
        { class: "controls" },
        app.episodeNumber === 0 && stepControls(app),
        el("label", {}, "action ", pick),
        app.model.costs.length > 1 && el("label", {}, "cost ", which),
      ),
      maps,
    ),
  ];
}

function heatMaps(app, critic, arrays, choice, step) {
  const actions = app.model.actions.length;
  const constraints = app.model.costs.length;
  const squares = critic.width * critic.height;
  const at = (square, action) => (square * actions + action) * constraints + choice.constraint;
  // Of all actions: the one with the least mean.
  const actionAt = (square) => {
    if (choice.action !== LEAST) return choice.action;
    let best = 0;
    for (let a = 1; a < actions; a++) if (!(arrays.mean[at(square, best)] <= arrays.mean[at(square, a)])) best = a;
    return best;
  };
  const of = (values) => Array.from({ length: squares }, (_, square) => values[at(square, actionAt(square))]);
  const mean = of(arrays.mean);
  const sigma = of(arrays.sigma);
  const { steps, end } = app.data.episodes[0];
  const drawn = picture(app.data.pictures[(steps[step] || end).picture]);
  const out = [
    figure("the world", el("div", { class: "world" }, drawn)),
    heatMap(critic, step, "predicted cost", mean, heat, "what the critic expects to be spent from here on"),
    heatMap(
      critic,
      step,
      "sigma",
      sigma,
      heat,
      "how far the members of the ensemble disagree: large where there was no data",
    ),
  ];
  if (arrays.exact) {
    const least = (square) => {
      const values = Array.from({ length: actions }, (_, a) => arrays.exact[at(square, a)]).filter(
        (value) => !Number.isNaN(value),
      );
      return values.length ? Math.min(...values) : NaN;
    };
    const exact = choice.action === LEAST ? mean.map((_, square) => least(square)) : of(arrays.exact);
    out.push(heatMap(critic, step, "exact cost", exact, heat, "the least that must be spent in the real world"));
    out.push(
      heatMap(
        critic,
        step,
        "error",
        mean.map((value, k) => value - exact[k]),
        diverging,
        "predicted minus exact: orange is too careful, blue too bold",
      ),
    );
  }
  if (critic.trained) {
    out.push(
      heatMap(critic, step, "trained on", critic.trained, heat, "how many of the training's states lie on each square"),
    );
  } else {
    out.push(
      el(
        "p",
        { class: "quiet" },
        "Where it was trained is known for a training's own folder (--critic DIR); a bundle that ships does not hold its data.",
      ),
    );
  }
  return out;
}

const figure = (title, drawing, explained) =>
  el("figure", {}, el("b", {}, title), drawing, explained && el("figcaption", { class: "quiet" }, explained));

// One number a square, and a ring around the agent's.
function heatMap(critic, step, title, values, colour, explained) {
  const cell = 46;
  const known = values.filter((value) => !Number.isNaN(value));
  const most = Math.max(1e-9, ...known.map(Math.abs));
  const whole = known.every(Number.isInteger);
  const { width, height } = critic;
  const drawing = svg("svg", {
    viewBox: `0 0 ${width * cell} ${height * cell}`,
    role: "img",
    "aria-label": `${title} over the map`,
  });
  values.forEach((value, square) => {
    const x = Math.floor(square / height) * cell;
    const y = (height - 1 - (square % height)) * cell;
    const blank = Number.isNaN(value);
    const words = blank ? "" : Math.abs(value) >= 100 ? general(value, 3) : whole ? String(value) : fixed(value, 2);
    const box = svg("rect", {
      x: x + 1,
      y: y + 1,
      width: cell - 2,
      height: cell - 2,
      rx: 4,
      class: blank ? "blank" : null,
    });
    if (!blank) box.style.fill = colour(value / most);
    drawing.append(
      svg(
        "g",
        { tip: blank ? null : `(${Math.floor(square / height)}, ${square % height}): ${title} ${general(value)}` },
        box,
        svg(
          "text",
          {
            class: Math.abs(value / most) > 0.55 ? "square strong" : "square",
            x: x + cell / 2,
            y: y + cell / 2 + 5,
            "text-anchor": "middle",
          },
          words,
        ),
      ),
    );
  });
  const place = critic.place_of_step[step];
  if (place)
    drawing.append(
      svg("circle", {
        class: "agent",
        cx: (place[0] + 0.5) * cell,
        cy: (height - place[1] - 0.5) * cell,
        r: cell * 0.46,
      }),
    );
  return figure(title, drawing, explained);
}
