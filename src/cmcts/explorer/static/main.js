// The page: which view, which episode, which step; everything else is drawn from that.

class App {
  constructor(data, root) {
    this.data = data;
    this.model = data.model;
    this.root = root;
    this.views = ["episode", ...(data.frontier ? ["frontier"] : []), ...(data.critic ? ["critic"] : [])];
    this.tableOrder = { column: "visits", down: true };
    this.replanned = null;
    this.criticChoice = null;
    this.#readAddress();
    document.addEventListener("keydown", (event) => this.#key(event));
    addEventListener("hashchange", () => {
      this.#readAddress();
      this.draw();
    });
  }

  get episode() {
    return this.data.episodes[this.episodeNumber];
  }
  get currentStep() {
    return this.episode.steps[this.step];
  }
  get decision() {
    return this.replanned || this.currentStep?.decision;
  }
  get hasWorld() {
    return Boolean(this.episode.end);
  }
  get lastStep() {
    return this.hasWorld ? this.episode.steps.length : this.episode.steps.length - 1;
  }

  // #episode=0&step=3&view=critic: a link leads to what was looked at.
  #readAddress() {
    const address = new URLSearchParams(location.hash.slice(1));
    const within = (name, most) => Math.max(0, Math.min(most, Math.trunc(Number(address.get(name))) || 0));
    this.episodeNumber = within("episode", this.data.episodes.length - 1);
    this.step = Math.min(within("step", 1e9), this.lastStep);
    this.view = this.views.includes(address.get("view")) ? address.get("view") : "episode";
  }

  #writeAddress() {
    const address = new URLSearchParams({ episode: this.episodeNumber, step: this.step, view: this.view });
    // A page inside another one (a notebook's) may have no address to change.
    try {
      history.replaceState(null, "", `#${address}`);
    } catch {
      /* then there is none */
    }
  }

  #key(event) {
    if (event.altKey || event.ctrlKey || event.metaKey || event.target.closest("input, select, textarea, .tree"))
      return;
    if (event.key === "ArrowLeft") this.go(this.step - 1);
    else if (event.key === "ArrowRight") this.go(this.step + 1);
    else if (event.key === "Home") this.go(0);
    else if (event.key === "End") this.go(this.lastStep);
    else return;
    event.preventDefault();
  }

  go(step) {
    const next = Math.max(0, Math.min(this.lastStep, step));
    if (next === this.step) return;
    this.step = next;
    this.replanned = null;
    this.draw();
  }

  show(view) {
    this.view = view;
    this.draw();
    document.getElementById(`tab-${view}`).focus();
  }
  openEpisode(number) {
    Object.assign(this, { episodeNumber: number, step: 0, replanned: null, view: "episode" });
    this.draw();
    scrollTo(0, 0);
  }
  chooseCritic(choice) {
    this.criticChoice = choice;
    this.draw();
  }
  replan(decision) {
    this.replanned = decision;
    this.draw();
  }

  sortBy(column) {
    const same = this.tableOrder.column === column;
    this.tableOrder = { column, down: same ? !this.tableOrder.down : column !== "action" };
    const table = this.root.querySelector(".decision .scroll");
    table.replaceChildren(actionTable(this));
    [...table.querySelectorAll("th button")].find((button) => button.textContent === column).focus();
  }

  addEpisode({ episode, pictures }) {
    const offset = this.data.pictures.length;
    this.data.pictures.push(...pictures);
    for (const step of [...episode.steps, episode.end]) step.picture += offset;
    this.data.episodes.push(episode);
    const step = this.step;
    this.openEpisode(this.data.episodes.length - 1);
    this.go(step);
  }

  draw() {
    delete document.documentElement.dataset.tree;
    const views = { episode: episodeView, frontier: frontierView, critic: criticView };
    const focused = document.activeElement?.id;
    // A tree takes a moment to be read: the page stays as high as it was, and where it was scrolled to.
    this.root.style.minHeight = this.view === this.drawn ? `${this.root.offsetHeight}px` : "";
    this.drawn = this.view;
    this.root.replaceChildren(
      header(this),
      el(
        "main",
        {
          id: "view",
          role: this.views.length > 1 ? "tabpanel" : null,
          "aria-labelledby": this.views.length > 1 ? `tab-${this.view}` : null,
        },
        ...views[this.view](this).filter(Boolean),
      ),
      footer(this),
    );
    if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
    document.getElementById("tip").hidden = true;
    this.#writeAddress();
  }
}

function header(app) {
  const { about } = app.data;
  const titles = { episode: "Episode", frontier: "Frontier", critic: "Critic" };
  const tabs =
    app.views.length > 1 &&
    el(
      "nav",
      { role: "tablist", "aria-label": "views", onkeydown: (event) => tabKey(event, app) },
      app.views.map((view) =>
        el(
          "button",
          {
            type: "button",
            role: "tab",
            id: `tab-${view}`,
            "aria-selected": String(view === app.view),
            "aria-controls": "view",
            tabindex: view === app.view ? 0 : -1,
            onclick: () => app.show(view),
          },
          titles[view],
        ),
      ),
    );
  return el(
    "header",
    {},
    el("div", { class: "title" }, el("h1", {}, about.task), about.description && el("p", {}, about.description)),
    tabs,
  );
}

function tabKey(event, app) {
  const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!by) return;
  event.stopPropagation();
  event.preventDefault();
  const at = app.views.indexOf(app.view) + by;
  app.show(app.views[(at + app.views.length) % app.views.length]);
}

function footer(app) {
  const { about } = app.data;
  return el(
    "footer",
    {},
    el("p", {}, `cmcts ${about.version} · task ${about.task}${about.seed === null ? "" : ` · seed ${about.seed}`}`),
    el("p", {}, about.command ? ["made by ", el("code", {}, about.command)] : "made by cmcts.explore, from Python"),
    about.note && about.note.split("\n").map((line) => el("p", {}, line)),
  );
}

function episodeView(app) {
  const shown = picture(app.data.pictures[app.currentStep ? app.currentStep.picture : app.episode.end?.picture]);
  const world =
    shown &&
    el("section", { class: "panel world-panel", "aria-label": "the world" }, el("div", { class: "world" }, shown));
  return [
    app.hasWorld && timelinePanel(app),
    el("div", { class: world && "side-by-side" }, world, el("div", {}, decisionPanel(app), livePanel(app))),
    treePanel(app),
  ];
}

function timelinePanel(app) {
  const { episodes } = app.data;
  const pick = el(
    "select",
    { id: "episode", "aria-label": "episode", onchange: () => app.openEpisode(Number(pick.value)) },
    episodes.map((episode, k) =>
      el("option", { value: k, selected: k === app.episodeNumber }, episode.name || `episode ${k + 1}`),
    ),
  );
  const last = app.episode.steps.at(-1);
  const over = last.total_costs.some((cost, m) => cost > app.episode.budget[m] + OVERSPENT);
  return el(
    "section",
    { class: "panel timeline", "aria-label": "timeline" },
    el(
      "div",
      { class: "controls" },
      episodes.length > 1 ? pick : el("b", {}, app.episode.name || "episode"),
      stepControls(app),
      el("span", { class: "step-words", "aria-live": "polite" }, stepWords(app, app.step).split("\n")[0]),
      el(
        "span",
        { class: over ? "tag unsafe" : "tag kept", tip: summary(app) },
        over ? "over the budget" : "within the budget",
      ),
    ),
    timeline(app),
  );
}

function stepControls(app) {
  const slider = el("input", {
    id: "step",
    type: "range",
    min: 0,
    max: app.lastStep,
    value: app.step,
    "aria-label": "step",
    "aria-valuetext": stepWords(app, app.step),
    oninput: () => app.go(Number(slider.value)),
  });
  const button = (id, words, label, step) =>
    el(
      "button",
      {
        id,
        type: "button",
        "aria-label": label,
        disabled: step < 0 || step > app.lastStep,
        onclick: () => app.go(step),
      },
      words,
    );
  return [button("back", "◀", "step back", app.step - 1), slider, button("on", "▶", "step on", app.step + 1)];
}

new App(JSON.parse(document.getElementById("data").textContent), document.getElementById("app")).draw();
