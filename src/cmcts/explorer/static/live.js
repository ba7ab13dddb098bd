// With --serve: plan a step again with other settings, or force another action.

function livePanel(app) {
  const { decision, model } = app;
  if (!app.data.live || !decision || app.step >= app.episode.steps.length) return null;
  const field = (name, label, value, hint) =>
    el("label", { tip: hint }, label, el("input", { name, type: "number", step: "any", min: 0, value: value ?? "" }));
  const several = model.costs.length > 1;
  const form = el(
    "form",
    {
      class: "live",
      onsubmit: (event) => {
        event.preventDefault();
        planAgain(app, form, say);
      },
    },
    model.costs.map((name, m) =>
      field(
        `budget${m}`,
        several ? `left: ${name}` : "left to spend",
        round(decision.budget[m]),
        "what may still be spent, in discounted units of now",
      ),
    ),
    field("iterations", "simulations", decision.iterations),
    decision.pruning &&
      field(
        "tolerance",
        "tolerance",
        decision.pruning.tolerance,
        "share of the cost scale by which a prediction is lowered",
      ),
    model.costs.map((name, m) =>
      field(
        `price${m}`,
        several ? `price: ${name}` : "price",
        round(decision.multipliers[m]),
        "lambda: what a unit of cost takes from the reward",
      ),
    ),
    el("button", { type: "submit", class: "primary" }, "plan again"),
    app.replanned && el("button", { type: "button", onclick: () => app.replan(null) }, "back to what was played"),
  );
  const forced = el(
    "select",
    { "aria-label": "action to force" },
    decision.actions.map((row) => el("option", { value: row.action }, row.name)),
  );
  const force = el(
    "button",
    { type: "button", onclick: () => forceAction(app, Number(forced.value), say) },
    "force it and play on",
  );
  const words = el("output", { class: "quiet", "aria-live": "polite" });
  const say = (text, alarm = false) => {
    words.textContent = text;
    words.classList.toggle("alarm", alarm);
  };
  return el(
    "section",
    { class: "panel live-panel", "aria-label": "what if" },
    el("h2", {}, "What if?"),
    form,
    el("div", { class: "tools" }, el("label", {}, "instead of ", el("b", {}, decision.name), ": ", forced), force),
    words,
  );
}

const round = (x) => Number(general(x, 6));

async function ask(app, path, question) {
  const answer = await fetch(path, {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-Token": app.data.live.token },
    body: JSON.stringify(question),
  });
  if (answer.headers.get("Content-Type") !== "application/json") throw new Error(await answer.text());
  const content = await answer.json();
  if (!answer.ok) throw new Error(content.error);
  return content;
}

async function attempt(say, act) {
  say("planning …");
  try {
    await act();
  } catch (error) {
    say(
      error instanceof TypeError
        ? "the server does not answer: is `cmcts explore --serve` still running?"
        : error.message,
      true,
    );
  }
}

function planAgain(app, form, say) {
  const value = (name) =>
    form.elements[name] && form.elements[name].value !== "" ? Number(form.elements[name].value) : null;
  const each = (name) => app.model.costs.map((_, m) => value(`${name}${m}`));
  const played = app.currentStep.decision;
  const question = {
    episode: app.episodeNumber,
    step: app.step,
    budget: each("budget"),
    iterations: value("iterations"),
  };
  if (question.budget.some((b) => b === null)) question.budget = null;
  if (played.pruning) question.tolerance = value("tolerance");
  const price = each("price");
  // A price that is tuned during the search stays so, unless another one is asked for.
  if (price.some((lambda, m) => lambda !== null && lambda !== round(played.multipliers[m])))
    question.price = price.map((lambda) => lambda ?? 0);
  attempt(say, async () => app.replan((await ask(app, "/plan", question)).decision));
}

function forceAction(app, action, say) {
  attempt(say, async () =>
    app.addEpisode(await ask(app, "/force", { episode: app.episodeNumber, step: app.step, action })),
  );
}
