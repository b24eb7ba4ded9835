// The two streams of a text: its factorization order, played step by step, and attention by head.

import { bars, count as thousands, get, hint, make, nameOf, percent, roving, svg } from "./elements.js";

const PACE = 1300;          // of a step while the order is played [ms]
const LEVELS = 10;          // of colour in a matrix
const LEAST = 1e-9;         // attention that the server rounds to 0
const STREAMS = { content: "Content stream h", query: "Query stream g" };
const remembered = { head: 0, token: 0 };         // what is chosen in `attention`

// ---- a matrix: rows see columns

// A mask the other way around: what each row sees.
const visible = mask => mask.map(row => row.map(hides => !hides));

// Squares as dark as the root of their weight, so that small ones can be told apart, and grey ones
// where a row does not see a column. One path for each level of colour: a map of 64 x 64 tokens has
// ten elements, not 4,096. `places` sorts rows and columns.
function matrix(stream, weights, sees, most, places) {
  const size = sees.length;
  const at = places || sees.map((_, index) => index);
  const paths = Array.from({ length: LEVELS + 1 }, () => []);
  for (let i = 0; i < size; i++)
    for (let j = 0; j < size; j++) {
      const level = !sees[i][j] ? 0 : weights
        ? Math.max(1, Math.ceil(LEVELS * Math.sqrt(weights[i][j] / (most || 1)))) : LEVELS;
      paths[level].push(`M${at[j]} ${at[i]}h1v1h-1z`);
    }
  const cells = paths.map((squares, level) => svg("path", { d: squares.join(""),
    class: level ? "cell" : "masked", "fill-opacity": level ? level / LEVELS : 1 }));
  return svg("g", { class: stream }, svg("rect", { width: size, height: size, class: "ground" }),
    ...cells);
}

// ---- play a factorization order

// `reorder` asks for the same text in another order, [positions from 0 on].
export function play(answer, reorder) {
  const { pieces, order, known } = answer;
  const sees = { content: visible(answer.content_hides), query: visible(answer.query_hides) };
  const names = pieces.map(nameOf), count = pieces.length;
  const place = [];                     // of each position in the order, from 0 on
  order.forEach((position, index) => { place[position] = index; });
  let step = Math.max(known, Math.floor(count / 2)), timer = null, isFresh = true;

  // The order, as the tokens in it: a click goes to a step, a drag changes the order.
  const chips = order.map((position, index) => make("button", { type: "button",
    className: "chip", onclick: () => { pause(); show(index); } },
  make("small", { textContent: index + 1 }), names[position],
  make("small", { className: "score", textContent: index < known ? "known"
    : percent(Math.exp(answer.log_probabilities[position])) })));
  const view = get("play").content.firstElementChild.cloneNode(true);
  const part = selector => view.querySelector(selector);
  const strip = part(".strip"), arcs = part(".arcs"), predicted = part(".predicted");
  strip.append(...chips);
  roving(strip, chips);
  dragged(strip, chips, moved => reorder(moved.map(index => order[index])));

  // The sentence, as each of the two streams sees it.
  const cards = {};
  for (const stream of Object.keys(STREAMS)) {
    cards[stream] = names.map((name, position) => make("span", { className: "card" },
      make("b", { className: "word", dir: "auto", textContent: name }),
      make("b", { className: "ask", textContent: "?" }),
      make("small", { textContent: place[position] + 1 })));
    part(".lane." + stream).append(...cards[stream]);
  }

  // The controls.
  const slider = part("#step"), playing = part(".playing"), byOrder = part("#by-order");
  const back = part(".back"), next = part(".next");
  slider.min = known + 1;
  slider.max = count;
  slider.oninput = () => { pause(); show(Number(slider.value) - 1); };
  back.onclick = () => { pause(); show(step - 1); };
  next.onclick = () => { pause(); show(step + 1); };
  playing.onclick = () => (timer ? pause() : start());
  byOrder.onchange = () => show(step);

  function show(wanted) {
    step = Math.min(Math.max(wanted, known), count - 1);
    const target = order[step], name = names[target];
    slider.value = step + 1;
    part("output").textContent = `step ${step + 1} of ${count}`;
    back.disabled = step === known;
    next.disabled = step === count - 1;
    chips.forEach((chip, index) => {
      chip.className = "chip " + (index < step ? "seen" : index > step ? "later" : "now");
      if (index === step) chip.setAttribute("aria-current", "step");
      else chip.removeAttribute("aria-current");
    });
    for (const [stream, tokens] of Object.entries(cards))
      tokens.forEach((card, position) => {
        const isSeen = sees[stream][target][position];
        card.className = "card " + (position === target ? stream === "query" ? "asked" : "itself"
          : isSeen ? "seen" : "unseen");
      });
    const before = order.slice(0, step).sort((a, b) => a - b).map(position => names[position]);
    const seen = step ? step > 1 ? `these ${step} tokens` : "this token" : "no token at all";
    part(".query .says").textContent = `sees ${seen} and its own position, ${target + 1}, but not its `
      + "token";
    part(".content .says").textContent = `sees the same, and its own token, \u201c${name}\u201d: it is `
      + "read now";
    predict(target, name, before);
    const found = order.slice(known, step + 1)
      .map(position => answer.log_probabilities[position] / Math.LN2);
    const sum = found.reduce((a, b) => a + b, 0);
    part(".total").textContent = `log\u2082 p of ${found.length === 1 ? "this token" : `these ${found.length}`
      + " tokens"}: \u2212${(-sum).toFixed(1)} bits, ${(-sum / found.length).toFixed(1)} bits a token.`;
    const sorted = byOrder.checked ? place : null;
    part(".masks").replaceChildren(...Object.entries(STREAMS).map(([stream, title]) => make("figure", {},
      svg("svg", { viewBox: `-0.2 -0.2 ${count + 0.4} ${count + 0.4}`, role: "img",
        "aria-label": `mask of the ${stream} stream; row of this step in a frame` },
      matrix(stream, null, sees[stream], 1, sorted),
      svg("rect", { class: "frame", x: 0, y: sorted ? step : target, width: count, height: 1 })),
      make("figcaption", { textContent: title }))));
    draw();
  }

  // What the query stream predicts: its likeliest tokens, and that of the text.
  function predict(target, name, before) {
    const probability = Math.exp(answer.log_probabilities[target]);
    const likelier = answer.likelier[target];
    const rows = answer.candidates[target].map((piece, index) =>
      [nameOf(piece, 1), Math.exp(answer.candidate_log_probabilities[target][index]), index === likelier]);
    if (likelier >= rows.length) rows.push([name, probability, true]);
    const condition = make("span", { className: "given", textContent: before.join(" ") || "nothing" });
    predicted.replaceChildren(
      make("h3", {}, "p(", make("b", { textContent: "?" }), make("sub", { textContent: target + 1 }),
        " | ", condition, ")"),
      bars(rows),
      hint(`The text has \u201c${name}\u201d: ${percent(probability)}, ${likelier
        ? `${thousands(likelier)} ${likelier > 1 ? "tokens are" : "token is"} likelier`
        : "the likeliest of all tokens"}.`));
  }

  // Arcs from what the query sees to the query, as strong as its attention.
  function draw() {
    const target = order[step], tokens = cards.query;
    const box = part(".lane.query").getBoundingClientRect();
    const top = card => {
      const own = card.getBoundingClientRect();
      return [own.left + own.width / 2 - box.left, own.top - box.top];
    };
    const [x, y] = top(tokens[target]), weights = answer.query_attention[target];
    const most = Math.max(...weights) || 1;
    arcs.replaceChildren(...tokens.flatMap((card, position) => {
      if (!sees.query[target][position]) return [];
      const [from, start] = top(card), rise = Math.min(12 + Math.abs(x - from) / 5, 54);
      const share = weights[position] / most;
      return [svg("path", { d: `M${from} ${start}C${from} ${start - rise} ${x} ${y - rise} ${x} ${y}`,
        "stroke-width": (0.6 + 4.4 * share).toFixed(2), "stroke-opacity": (0.25 + 0.75 * share)
          .toFixed(2) }, svg("title", {}, `${names[position]}: ${percent(weights[position])}`))];
    }));
  }

  function pause() {
    clearInterval(timer);
    timer = null;
    isFresh = false;
    playing.textContent = "\u25b6 Play";
    playing.ariaLabel = "play";
  }

  function start() {
    if (isFresh || step === count - 1) show(known);
    pause();
    playing.textContent = "\u275a\u275a Pause";
    playing.ariaLabel = "pause";
    timer = setInterval(() => {
      if (!view.isConnected) return pause();
      show(step + 1);
      if (step === count - 1) pause();
    }, PACE);
  }

  view.addEventListener("keydown", event => {
    const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const from = chips.indexOf(event.target), to = from + move;
    if (!event.altKey || from < 0 || !(to in chips)) return;
    event.preventDefault();
    const moved = [...order];
    moved.splice(to, 0, ...moved.splice(from, 1));
    reorder(moved, to);
  });
  chips.forEach((chip, index) => chip.addEventListener("focus", () => { pause(); show(index); }));
  new ResizeObserver(draw).observe(part(".lane.query"));
  show(step);
  return [view];
}

// Lets the pointer drag items to other places of a strip, then tells their numbers in the new order.
function dragged(strip, items, done) {
  let item = null, hasMoved = false;
  strip.addEventListener("pointerdown", event => {
    item = event.target.closest(".chip");
    hasMoved = false;
  });
  strip.addEventListener("pointermove", event => {
    if (!item || !event.buttons) return;
    const under = document.elementFromPoint(event.clientX, event.clientY);
    const over = under && under.closest(".strip > .chip");
    if (!over || over === item || over.parentElement !== strip) return;
    if (!hasMoved) strip.setPointerCapture(event.pointerId);
    hasMoved = true;
    const all = [...strip.children];
    if (all.indexOf(over) > all.indexOf(item)) over.after(item);
    else over.before(item);
  });
  strip.addEventListener("pointerup", () => {
    if (item && hasMoved) done([...strip.children].map(child => items.indexOf(child)));
    item = null;
  });
}

// ---- attention by head

export function attention(answer) {
  const { pieces, places, hidden } = answer;
  const sees = Object.fromEntries(Object.entries(hidden).map(([name, mask]) => [name, visible(mask)]));
  const names = pieces.map(nameOf), count = pieces.length;
  const streams = Object.keys(answer.streams), heads = answer.streams[streams[0]][0].length;
  // Of each stream the mean of the heads, then the heads: [1 + N][T][T].
  const weights = Object.fromEntries(streams.map(stream => {
    const found = answer.streams[stream][0];
    const mean = names.map((_, i) => names.map((_, j) =>
      found.reduce((sum, head) => sum + head[i][j], 0) / heads));
    return [stream, [mean, ...found]];
  }));
  const most = Math.max(...streams.flatMap(stream => weights[stream].flat(2)));
  const state = remembered;
  state.head = Math.min(state.head, heads);
  state.token = Math.min(state.token, count - 1);

  const tokens = names.map((name, at) => make("button", { type: "button",
    onclick: () => choose(at, state.head) }, name,
  ...places ? [make("small", { textContent: places[at] })] : []));
  const row = make("div", { className: "pieces", role: "group", ariaLabel: "tokens" }, ...tokens);
  roving(row, tokens);
  const small = Array.from({ length: heads + 1 }, (_, head) => make("button", { type: "button",
    className: "head", onclick: () => choose(state.token, head) },
  ...streams.map(stream => svg("svg", { viewBox: `0 0 ${count} ${count}`, "aria-hidden": "true" },
    matrix(stream, weights[stream][head], sees[stream], most))),
  make("span", { textContent: head ? "head " + head : "mean" })));
  const many = make("div", { className: "heads", role: "group", ariaLabel: "heads" }, ...small);
  roving(many, small);
  const seen = make("div"), maps = make("div", { className: "maps" });
  const readout = make("p", { className: "readout", role: "status" });

  function choose(token, head) {
    Object.assign(state, { token, head });
    tokens.forEach((button, at) => button.setAttribute("aria-pressed", at === token));
    small.forEach((button, at) => button.setAttribute("aria-pressed", at === head));
    readout.textContent = "Point at a square to see its two tokens.";
    maps.replaceChildren(...streams.map(stream => map(stream, head)));
    seen.replaceChildren(...streams.flatMap(stream => [
      make("h3", { textContent: `\u201c${names[token]}\u201d in the ${stream} stream attends to` }),
      make("div", { className: "pieces " + stream }, ...names.map((name, at) => {
        if (!sees[stream][token][at]) return make("span", { className: "hidden", textContent: name });
        const value = weights[stream][head][token][at] || LEAST, bar = make("i");
        bar.style.width = 100 * value / most + "%";
        return make("span", {}, name, make("small", { textContent: percent(value) }), bar);
      })),
    ]));
  }

  // A map with its tokens along both axes; the pointer lights a square and its two tokens.
  function map(stream, head) {
    const longest = Math.min(Math.max(...names.map(name => name.length)), 10);
    const label = 0.6 + 0.36 * longest, side = count + label, values = weights[stream][head];
    const text = (at, attributes) => svg("text", attributes, names[at].slice(0, 10));
    const rows = names.map((_, i) => text(i, { x: -0.25, y: i + 0.7, "text-anchor": "end" }));
    const columns = names.map((_, j) => text(j, { transform: `translate(${j + 0.7} -0.25) rotate(-90)` }));
    const light = svg("rect", { class: "frame", width: 1, height: 1, visibility: "hidden" });
    const drawing = svg("svg", { viewBox: `${-label} ${-label} ${side} ${side}`, role: "img",
      "aria-label": `attention of the ${stream} stream, ${head ? "head " + head : "mean of the heads"}` },
    matrix(stream, values, sees[stream], most), ...rows, ...columns,
    svg("rect", { class: "row", x: 0, y: state.token, width: count, height: 1 }), light);
    const lit = (i, j) => {
      rows.forEach((each, at) => each.classList.toggle("lit", at === i));
      columns.forEach((each, at) => each.classList.toggle("lit", at === j));
      light.setAttribute("visibility", i === undefined ? "hidden" : "visible");
    };
    const squareAt = event => {
      const point = new DOMPoint(event.clientX, event.clientY)
        .matrixTransform(drawing.getScreenCTM().inverse());
      return [Math.floor(point.y), Math.floor(point.x)];
    };
    drawing.onpointermove = event => {
      const [i, j] = squareAt(event);
      if (!(i in names && j in names)) return lit();
      lit(i, j);
      light.setAttribute("x", j);
      light.setAttribute("y", i);
      readout.textContent = `${stream} stream: \u201c${names[i]}\u201d ${sees[stream][i][j]
        ? `attends to \u201c${names[j]}\u201d with ${percent(values[i][j] || LEAST)}`
        : `does not see \u201c${names[j]}\u201d`}`;
    };
    drawing.onpointerleave = () => lit();
    drawing.onclick = event => {
      const [i] = squareAt(event);
      if (i in names) choose(i, state.head);
    };
    return make("figure", { className: "wide" }, make("figcaption", {},
      make("b", { textContent: STREAMS[stream] }), " rows attend to columns"), drawing);
  }

  choose(state.token, state.head);
  return [
    hint(places ? "The number under a token is its place in the factorization order. Choose a token:"
      : "Each token sees all. Choose a token:"), row,
    make("div", { className: "key" }, "0\u00a0%",
      ...streams.map(stream => make("span", { className: "ramp " + stream })),
      `${percent(most)} (in the middle ${percent(most / 4)})`,
      make("span", { className: "ramp unseen" }), "not visible"),
    maps, readout, make("h2", { textContent: "All heads of the layer" }), many, seen];
}
