"use strict";
// The page of a served model: fields by signature; predictions as text, bars and marks.
// Texts are only set as textContent, never as HTML.

const PARAMETERS = {        // of a signature, with their defaults
  fill: { top: 5 },
  generate: { max_tokens: 60, temperature: 1, top_p: 0.9 },
};
const WORDS = {             // of a signature, or of what a fine-tuned model does: tab, button
  fill: ["Fill in blanks", "Fill in"], generate: ["Continue a text", "Continue"],
  attention: ["Attention", "Show attention"], vectors: ["Similarity", "Compare"],
  classify: ["Classify", "Classify"], score: ["Score", "Score"], choose: ["Choose", "Choose"],
  rank: ["Relevance", "Score"], answer: ["Answer a question", "Answer"],
  tag: ["Find entities", "Find entities"],
};
const TITLES = {
  text_a: "Text", text_b: "Second text", prompt: "Beginning of a text", question: "Question",
  top: "Fillings", max_tokens: "Tokens, at most", temperature: "Temperature", top_p: "Top p",
  context: "Text with the answer", choices: "Answers to choose from, one on each line",
};
const TITLES_OF = {         // where they are other ones
  fill: { text: "Text with blanks: ___" }, attention: { text: "Text, a sentence" },
  rank: { text_a: "Query", text_b: "Document" }, choose: { text_b: "Question" },
  vectors: { text_a: "Text", other: "Another text to compare it with" },
};
const ORDERS = { random: "random", left_to_right: "left to right", none: "none: each sees all",
  own: "your own" };
const COLOURS = 8;          // of entity labels; more labels share them
const BARS = 20;            // shown at most
const AROUND = 30;          // characters shown on each side of a blank

const get = id => document.getElementById(id);
const drafts = {};          // what is entered, of each signature
let model, signatures, current, running;

function make(tag, properties, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

async function fetchJson(path, options) {
  const answer = await fetch(path, options);
  const content = await answer.json();
  if (!answer.ok) throw new Error(content.error);
  return content;
}

async function start() {
  try {
    const { models: [{ name }] } = await fetchJson("v1/models");
    const path = "v1/models/" + encodeURIComponent(name);
    model = { path, name, ...await fetchJson(path) };
    signatures = model.signatures;
  } catch (error) {
    return fail(error);
  }
  document.title = get("name").textContent = model.name;
  get("about").textContent = model.about;
  // What explains a prediction has no tab: it is asked for below a prediction.
  get("signatures").append(...Object.keys(signatures).filter(name => name !== "explain").map(name => {
    const button = make("button", { type: "button", textContent: words(name)[0],
      onclick: () => choose(name) });
    button.dataset.signature = name;
    return button;
  }));
  for (const [name, rows] of Object.entries(model.examples))
    if (rows.length) drafts[name] = { row: rows[0] };
  let linked = {};
  try {                     // a link with the input
    linked = JSON.parse(decodeURIComponent(location.hash.slice(1)));
  } catch { /* none */ }
  if (linked && signatures[linked.signature]) {
    drafts[linked.signature] = linked;
    choose(linked.signature);
  } else choose(model.default_signature);
}

// The kind of a signature: what a fine-tuned model does is not named by it.
const kind = name => name === "text" ? model.verb : name;
const words = name => WORDS[kind(name)] || [name, "Predict"];

function choose(name) {
  if (current) drafts[current] = entered();
  if (running) running.abort();
  running = null;
  get("wait").textContent = "";
  get("stop").hidden = true;
  current = name;
  for (const button of get("signatures").children)
    button.setAttribute("aria-pressed", button.dataset.signature === name);
  const titles = { ...TITLES, ...TITLES_OF[kind(name)] };
  const keys = [...signatures[name], ...name === "vectors" ? ["other"] : []];
  if (keys.includes("question")) keys.sort((a, b) => (b === "question") - (a === "question"));
  if (keys.includes("choices")) keys.sort((a, b) => (a === "choices") - (b === "choices"));
  get("fields").replaceChildren(...keys.flatMap((key, at) => [
    make("label", { htmlFor: "in-" + key, textContent: titles[key] || key }),
    make("textarea", { id: "in-" + key, rows: key === "question" ? 1 : at ? 3 : 4, dir: "auto",
      required: key !== "other" }),
  ]));
  get("parameters").replaceChildren(...Object.entries(PARAMETERS[name] || {}).map(([key, value]) =>
    make("div", {}, make("label", { htmlFor: "set-" + key, textContent: TITLES[key] || key.replace("_", " ") }),
      make("input", { id: "set-" + key, type: "number", step: "any", value, placeholder: value }))),
    ...name === "attention" ? attentionSettings() : []);
  const rows = model.examples[name] || [];
  get("examples").hidden = !rows.length;
  get("examples").replaceChildren("Examples:", ...rows.map(row => make("button", { type: "button",
    textContent: shortened(String(Object.values(row)[0]), 40), onclick: () => { enter({ row }); } })));
  enter(drafts[name] || {});
  get("answer").replaceChildren();
  get("same").hidden = true;
  get("ask").textContent = words(name)[1];
}

const shortened = (text, most) => text.length > most ? text.slice(0, most - 1) + "\u2026" : text;

// What is in the fields: {row, parameters}, and to fill them with it.
function entered() {
  const values = (place, prefix) => Object.fromEntries([...get(place).querySelectorAll(
    "textarea, input, select")].map(field => [field.id.slice(prefix), field.value]));
  const row = values("fields", 3);
  if ("choices" in row) row.choices = row.choices.split("\n").filter(line => line.trim());
  return { row, parameters: values("parameters", 4) };
}

function enter({ row = {}, parameters = {} }) {
  for (const [prefix, values] of [["in-", row], ["set-", parameters]])
    for (const [key, value] of Object.entries(values)) {
      const field = get(prefix + key);
      if (field) field.value = Array.isArray(value) ? value.join("\n") : value;
    }
  if (current === "attention") showOrder();
}

// The body of the request; a number that was cleared is left to the server.
function body() {
  const { row, parameters } = entered();
  const { other, ...first } = row;
  if ("choices" in first) {
    first.choices.push(...Array(Math.max(0, model.labels.length - first.choices.length)).fill(""));
  }
  const asked = { signature_name: current, instances: [first] };
  if (current === "vectors" && other.trim()) asked.instances.push({ ...first, text_a: other });
  const set = Object.entries(parameters).filter(([, value]) => value !== "");
  if (current === "attention")
    asked.parameters = { layers: [Number(parameters.layer)], order: parameters.order === "own"
      ? parameters.own : parameters.order, seed: Number(parameters.seed) || 0 };
  else if (set.length)
    asked.parameters = Object.fromEntries(set.map(([key, value]) => [key, Number(value)]));
  return asked;
}

function ask(event) {
  event.preventDefault();
  return send(body(), get("answer"));
}

// Sends a request and shows the answer in an element; the server drops the request before it.
async function send(asked, place) {
  if (running) running.abort();
  const mine = running = new AbortController();
  const row = asked.instances[0], streams = current === "generate";
  const began = Date.now();
  const tick = () => { get("wait").textContent = Math.round((Date.now() - began) / 1000) + " s"; };
  const clock = setInterval(tick, 1000);
  tick();
  get("stop").hidden = false;
  describe(asked);
  try {
    const request = { method: "POST", signal: mine.signal,
      body: JSON.stringify(streams ? { ...asked, stream: true } : asked) };
    if (streams) await generate(row, request);
    else {
      const { predictions, labels } = await fetchJson(model.path + ":predict", request);
      if (running === mine) place.replaceChildren(...shown(predictions, asked, labels || []));
    }
  } catch (error) {
    if (running !== mine) return clearInterval(clock);
    if (error.name !== "AbortError") fail(error, place);
    else place.append(make("p", { textContent: "stopped" }));
  }
  clearInterval(clock);
  if (running !== mine) return;         // another request, or tab, came meanwhile
  running = null;
  get("wait").textContent = "";
  get("stop").hidden = true;
}

// The request as a link, for a shell and in Python.
function describe(asked) {
  const url = new URL(model.path + ":predict", location.href).href;
  const text = JSON.stringify(asked);
  const quoted = value => "'" + value.replaceAll("'", "'\\''") + "'";
  get("curl").textContent = "curl " + quoted(url) + " -d " + quoted(text);
  get("python").textContent = "import json, urllib.request\n\nasked = " + text
    + "\nwith urllib.request.urlopen(" + JSON.stringify(url)
    + ", json.dumps(asked).encode()) as answer:\n    print(json.load(answer))";
  history.replaceState(null, "", "#" + encodeURIComponent(JSON.stringify(
    { signature: current, ...entered() })));
  get("same").hidden = false;
}

async function copy(button, text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {                 // not allowed without HTTPS
    const field = make("textarea", { value: text, ariaLabel: "to copy" });
    button.after(field);
    field.select();
    return;
  }
  const before = button.textContent;
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = before; }, 1500);
}

function fail(error, place = get("answer")) {
  place.replaceChildren(make("p", { className: "error", role: "alert",
    textContent: error.message.replace(/^row 0: /, "") }));
}

// Shows generated text as it arrives, a JSON object a line; each token has its probability.
async function generate(row, request) {
  const answer = await fetch(model.path + ":predict", request);
  if (!answer.ok) throw new Error((await answer.json()).error);
  const text = make("div", { className: "text", dir: "auto" }, row.prompt);
  const note = make("p");
  get("answer").replaceChildren(text, note);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      const part = JSON.parse(line);
      if (part.error) throw new Error(part.error);
      if (part.text) {
        const token = make("span", { className: "token", textContent: part.text });
        if (part.probability !== undefined) {
          token.title = "probability " + percent(part.probability);
          token.style.borderBottomColor = `color-mix(in srgb, var(--accent) ${
            Math.round(100 * part.probability)}%, transparent)`;
        }
        text.append(token);
      }
      if (part.ended) note.textContent = { length: "as long as was asked for", stop: "ended by the stop text",
        document: "the model ended the text" }[part.ended] || part.ended;
    }
  }
}

// ---- predictions as elements

function shown(answers, asked, labels) {
  const answer = answers[0], row = asked.instances[0];
  if (asked.signature_name === "vectors") return similarity(answers);
  if (asked.signature_name === "explain") return explained(answer, [row.text_a, row.text_b]);
  if (typeof answer === "number") return [headline(round(answer)), ...why(asked)];
  if ("streams" in answer) return attention(answer);
  if ("entity_labels" in answer) return entities(answer, row.text_a);
  if ("answer" in answer) return span(answer, row.context);
  if ("words" in answer && "texts" in answer) return [filled(answer, row.text)];
  if (labels.length && "probabilities" in answer) {
    const chosen = answer.is_label ? labels.filter((_, at) => answer.is_label[at]) : [answer.label];
    return [headline(chosen.join(", ") || "none of the labels", answer.is_label ? ""
      : percent(answer.probabilities[labels.indexOf(answer.label)])),
    bars(labels.map((label, at) => [label, answer.probabilities[at], chosen.includes(label)])),
    ...why(asked)];
  }
  return [make("pre", { textContent: JSON.stringify(answer, null, 1), tabIndex: 0 })];
}

const round = number => String(Number(number.toPrecision(4)));
const percent = share => (100 * share).toFixed(share < 0.1 || share > 0.99 ? 1 : 0) + "\u00a0%";
const headline = (what, more = "") => make("p", { className: "headline", dir: "auto" },
  make("strong", { textContent: what }), " ", more);

// Bars for rows of [name, probability, whether it is chosen], most probable first.
function bars(rows) {
  return make("div", { className: "bars" }, ...rows.sort((a, b) => b[1] - a[1]).slice(0, BARS).flatMap(
    ([what, probability, chosen]) => {
      const inner = make("div");
      inner.style.width = 100 * Math.min(probability, 1) + "%";
      const name = make("span", { className: chosen ? "chosen" : "", dir: "auto" }, what);
      return [name, make("span", { textContent: percent(probability) }),
        make("div", { className: "bar", ariaHidden: "true" }, inner)];
    }));
}

// A button that asks how much each word counts for a prediction, and the place for the answer.
function why(asked) {
  if (current !== "text" || !signatures.explain) return [];
  const place = make("div");
  return [make("button", { id: "why", type: "button", textContent: "Why? Show the words that count",
    onclick: () => send({ signature_name: "explain", instances: asked.instances }, place) }), place];
}

// The words of one or two texts, shaded by how much they count, and their numbers as a table.
function explained({ words, weights, first_words: first, output, value }, texts) {
  const most = Math.max(...weights.map(Math.abs)) || 1;
  const numbers = weights.map(weight => (weight < 0 ? "\u2212" : "+") + Math.abs(weight).toFixed(4));
  const shaded = texts.filter(text => text !== undefined).map((text, second) => {
    const parts = [];
    let end = 0;
    for (let at = second ? first : 0; at < (second ? words.length : first); at++) {
      const begin = text.indexOf(words[at], end);       // they come in the order of the text
      const mark = make("mark", { className: weights[at] < 0 ? "lowers" : "raises",
        title: numbers[at], textContent: words[at] });
      mark.style.setProperty("--part", Math.round(100 * Math.abs(weights[at]) / most) + "%");
      parts.push(text.slice(end, begin), mark);
      end = begin + words[at].length;
    }
    return make("div", { className: "text", dir: "auto" }, ...parts, text.slice(end));
  });
  const cells = (tag, ...texts) => make("tr", {}, ...texts.map(text => make(tag, { textContent: text,
    dir: "auto" })));
  return [make("h2", { textContent: model.labels ? `Words that count for ${output}, ${percent(value)}`
    : `Words that count for the score, ${round(value)}` }),
  make("p", { className: "hint", textContent: "Blue words raise it, orange, underlined words lower it; a "
    + "stronger colour counts more. Point at a word for its number." }), ...shaded,
  make("details", {}, make("summary", { textContent: "The numbers as a table" }), make("table", {},
    make("thead", {}, cells("th", "Word", "Change")),
    make("tbody", {}, ...words.map((word, at) => cells("td", word, numbers[at])))))];
}

// A text with marks over characters start to end: [[start, end, label, class], ...] in order.
function marked(text, spans) {
  const characters = Array.from(text);            // as the server counts them
  const parts = [];
  let at = 0;
  for (const [start, end, label, className = ""] of spans) {
    parts.push(characters.slice(at, start).join(""), make("mark", { className },
      characters.slice(start, end).join(""), ...(label ? [make("small", { textContent: label })] : [])));
    at = end;
  }
  return make("div", { className: "text", dir: "auto" }, ...parts, characters.slice(at).join(""));
}

function entities(answer, text) {
  const found = answer.entity_labels.map((label, at) =>
    [answer.entity_starts[at], answer.entity_ends[at], label]).filter(([, , label]) => label);
  const names = [...new Set(found.map(([, , label]) => label))].sort();
  const colour = label => "c" + names.indexOf(label) % COLOURS;
  return [headline(found.length ? found.length + (found.length > 1 ? " entities" : " entity") : "no entities"),
    make("p", { className: "legend" }, ...names.map(label => make("mark", { className: colour(label),
      textContent: label }))),
    marked(text, found.map(([start, end, label]) => [start, end, label, colour(label)]))];
}

function span(answer, context) {
  const has = answer.start >= 0;
  const others = bars(answer.texts.map((text, at) => [text, answer.probabilities[at], has && !at])
    .filter(([text]) => text));
  if (!has) others.classList.add("rejected");
  return [has ? headline(answer.answer, percent(answer.probability)) : headline("No answer in this text",
    percent(answer.null_probability)),
  marked(context, has ? [[answer.start, answer.end]] : []),
  make("h2", { textContent: has ? "Best spans" : "Rejected spans" }), others,
  make("p", { textContent: "probability that there is no answer: " + percent(answer.null_probability) })];
}

// Fillings with some characters around each blank; a click puts the words into the text.
function filled(answer, text) {
  const parts = text.split(/_{3,}/);
  const around = (part, at) => (at && at < parts.length - 1 || part.length <= AROUND) ? part
    : at ? part.slice(0, AROUND) + "\u2026" : "\u2026" + part.slice(-AROUND);
  return bars(answer.words.map((words, row) => [
    make("button", { type: "button", title: "put into the text", onclick: () => {
      get("in-text").value = answer.texts[row];
      get("in-text").focus();
    } }, ...parts.flatMap((part, at) => [...at ? [make("mark", { textContent: words[at - 1] })] : [],
      around(part, at)])),
    answer.probabilities[row], !row]));
}

function similarity(answers) {
  const vectors = answers.map(answer => answer.vector || answer);
  const norm = vector => Math.hypot(...vector);
  const found = [];
  if (vectors.length > 1) {
    const [a, b] = vectors;
    found.push(headline((a.reduce((sum, x, at) => sum + x * b[at], 0) / norm(a) / norm(b)).toFixed(3),
      "cosine similarity, at most 1"));
  }
  return [...found, ...vectors.map((vector, at) => {
    const button = make("button", { type: "button", textContent: "Copy vector" });
    button.onclick = () => copy(button, JSON.stringify(vector));
    return make("p", {}, `Vector of the ${["first", "second"][at]} text: ${vector.length} numbers, length ${
      round(norm(vector))} `, button);
  })];
}

// ---- attention and the two streams

function attentionSettings() {
  const field = (id, title, control) => make("div", {}, make("label", { htmlFor: "set-" + id,
    textContent: title }), Object.assign(control, { id: "set-" + id }));
  const options = (count, first = []) => [...first, ...Array.from({ length: count }, (_, at) =>
    make("option", { value: at + 1, textContent: at + 1 }))];
  return [
    field("layer", "Layer", make("select", { onchange: again }, ...options(model.layers))),
    field("head", "Head", make("select", { onchange: again }, ...options(model.heads,
      [make("option", { value: 0, textContent: "mean" })]))),
    field("order", "Factorization order", make("select", { onchange: () => { showOrder(); again(); } },
      ...Object.entries(ORDERS).map(([value, textContent]) => make("option", { value, textContent })))),
    field("seed", "Seed", make("input", { type: "number", min: 0, step: 1, value: 0, onchange: again })),
    field("own", "Order: numbers of the tokens", make("input", { type: "text", placeholder: "2,1,3",
      onchange: again })),
  ];
}

const again = () => { if (get("answer").querySelector(".maps")) get("form").requestSubmit(); };

function showOrder() {
  const order = get("set-order").value;
  get("set-seed").parentElement.hidden = order !== "random";
  get("set-own").parentElement.hidden = order !== "own";
}

function attention(answer) {
  const { pieces, places, sees } = answer, head = Number(get("set-head").value);
  const streams = Object.keys(answer.streams);
  const weight = Object.fromEntries(streams.map(name => {             // [T][T] of the head, or the mean
    const heads = answer.streams[name][0];
    return [name, head ? heads[head - 1] : pieces.map((_, i) => pieces.map((_, j) =>
      heads.reduce((sum, one) => sum + one[i][j], 0) / heads.length))];
  }));
  const names = pieces.map(piece => piece.replace("\u2581", " ").trim() || "\u2423");
  if (places) get("set-own").value = places.map((place, at) => [place, at + 1]).sort((a, b) => a[0] - b[0])
    .map(([, at]) => at).join(",");
  const seen = make("div"), maps = make("div", { className: "maps" });
  const buttons = names.map((name, at) => make("button", { type: "button", onclick: () => select(at) }, name,
    ...places ? [make("small", { textContent: places[at] })] : []));
  function select(chosen) {
    buttons.forEach((button, at) => button.setAttribute("aria-pressed", at === chosen));
    seen.replaceChildren(...streams.flatMap(stream => [
      make("h2", { textContent: `What \u201c${names[chosen]}\u201d sees in the ${stream} stream` }),
      make("div", { className: "pieces" }, ...names.map((name, at) => {
        const bar = make("i"), value = weight[stream][chosen][at];
        bar.style.width = 100 * value + "%";
        return make("span", { className: sees[stream][chosen][at] ? "" : "hidden",
          title: sees[stream][chosen][at] ? "attention " + percent(value) : "not visible" }, name, bar);
      }))]));
    maps.replaceChildren(...streams.map(stream => map(stream, names, weight[stream], sees[stream], chosen)));
  }
  select(0);
  return [make("p", { textContent: places ? "The number under a token is its place in the factorization order. "
    + "Choose a token:" : "Each token sees all. Choose a token:" }),
  make("div", { className: "pieces" }, ...buttons), seen, maps,
  make("p", { className: "hint", textContent: "Rows attend to columns; the chosen token is framed. Crossed out, and "
    + "hatched: masked. The content stream of a token sees itself, the query stream, which predicts it, does not." })];
}

// A map of attention as SVG: a square for each pair of tokens, as dark as its weight.
function map(stream, names, weights, sees, chosen) {
  const svg = (tag, attributes, ...children) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  };
  const title = text => svg("title", {}, text);
  const size = weights.length, most = Math.max(...weights.flat()) || 1;
  const drawing = svg("svg", { viewBox: `0 0 ${size} ${size}`, role: "img",
    "aria-label": `attention and mask of the ${stream} stream` });
  drawing.append(svg("pattern", { id: "masked-" + stream, width: 0.25, height: 0.25,
    patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
  svg("rect", { width: 0.05, height: 0.25, class: "hatch" })));
  weights.forEach((row, i) => row.forEach((value, j) => drawing.append(sees[i][j]
    ? svg("rect", { x: j, y: i, width: 1, height: 1, "fill-opacity": (value / most).toFixed(3) },
      title(`${names[i]} \u2192 ${names[j]}: ${percent(value)}`))
    : svg("rect", { x: j, y: i, width: 1, height: 1, class: "masked", fill: `url(#masked-${stream})` },
      title(`${names[i]} does not see ${names[j]}`)))));
  drawing.append(svg("rect", { x: 0, y: chosen, width: size, height: 1, class: "row" }));
  return make("figure", {}, drawing, make("figcaption", { textContent: `${stream} stream` }));
}

get("form").addEventListener("submit", ask);
get("form").addEventListener("keydown", event => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) get("form").requestSubmit();
});
get("stop").addEventListener("click", () => running && running.abort());
get("link").addEventListener("click", () => copy(get("link"), location.href));
start();
