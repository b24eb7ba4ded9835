"use strict";
// The page of a served model: fields by signature; predictions as text, bars and marks.
// Texts are only set as textContent, never as HTML.

const PARAMETERS = {        // of a signature, with their defaults
  fill: { top: 5 },
  generate: { max_tokens: 60, temperature: 1, top_p: 1 },
};
const TITLES = {
  text_a: "text", text_b: "second text", text: "text with blanks: ___", prompt: "beginning of a text",
  choices: "choices, one on each line",
};
const BARS = 20;            // shown at most

const get = id => document.getElementById(id);
let model, signatures, current, abort;

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
    signatures = (await fetchJson(path + "/metadata")).metadata.signature_def.signature_def;
  } catch (error) {
    return fail(error);
  }
  document.title = get("name").textContent = model.name;
  get("about").textContent = model.about;
  get("signatures").append(...Object.keys(signatures).map(name => make("button", {
    type: "button", textContent: name, onclick: () => choose(name) })));
  choose(model.default_signature);
}

function choose(name) {
  current = name;
  for (const button of get("signatures").children)
    button.setAttribute("aria-pressed", button.textContent === name);
  get("fields").replaceChildren(...Object.entries(signatures[name].inputs).flatMap(([key, input], at) => [
    make("label", { htmlFor: "in-" + key, textContent:
      (TITLES[key] || key) + (isText(input) ? "" : ", as JSON") }),
    make("textarea", { id: "in-" + key, rows: key === "question" ? 1 : at ? 3 : 4, dir: "auto",
      required: true }),
  ]));
  get("parameters").replaceChildren(...Object.entries(PARAMETERS[name] || {}).map(([key, value]) =>
    make("div", {}, make("label", { htmlFor: "set-" + key, textContent: key.replace("_", " ") }),
      make("input", { id: "set-" + key, type: "number", step: "any", value }))));
  get("answer").replaceChildren();
  get("curl").textContent = "";
  get("ask").textContent = { generate: "Generate", fill: "Fill in" }[name] || "Predict";
}

const isText = input => input.dtype === "DT_STRING";

function example() {
  return Object.fromEntries(Object.entries(signatures[current].inputs).map(([key, input]) => {
    const value = get("in-" + key).value;
    if (!isText(input)) return [key, JSON.parse(value)];
    if ((input.tensor_shape.dim || []).length < 2) return [key, value];
    const lines = value.split("\n").filter(line => line.trim());
    const size = Number(input.tensor_shape.dim[1].size);
    return [key, [...lines, ...Array(Math.max(0, size - lines.length)).fill("")]];
  }));
}

async function ask(event) {
  event.preventDefault();
  abort = new AbortController();
  const streams = current === "generate";
  get("ask").disabled = true;
  get("stop").hidden = !streams;
  try {
    const row = example();
    const body = { signature_name: current, instances: [row] };
    if (PARAMETERS[current]) body.parameters = Object.fromEntries(Object.keys(PARAMETERS[current])
      .map(key => [key, get("set-" + key).valueAsNumber]));
    const text = JSON.stringify(body);
    get("curl").textContent = "curl '" + new URL(model.path + ":predict", location.href)
      + "' -d '" + text.replaceAll("'", "'\\''") + "'";
    const request = { method: "POST", signal: abort.signal,
      body: streams ? JSON.stringify({ ...body, stream: true }) : text };
    if (streams) await generate(row, request);
    else {
      const { predictions, labels } = await fetchJson(model.path + ":predict", request);
      get("answer").replaceChildren(...shown(predictions[0], row, labels || []));
    }
  } catch (error) {
    if (error.name !== "AbortError") fail(error);
  }
  get("ask").disabled = false;
  get("stop").hidden = true;
}

function fail(error) {
  get("answer").replaceChildren(make("p", { className: "error", role: "alert", textContent: error.message }));
}

// Shows generated text as it arrives, a JSON object a line.
async function generate(row, request) {
  const answer = await fetch(model.path + ":predict", request);
  if (!answer.ok) throw new Error((await answer.json()).error);
  const written = make("mark");
  const note = make("p");
  get("answer").replaceChildren(make("div", { className: "text", dir: "auto" }, row.prompt, written), note);
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
      written.append(part.text);
      if (part.ended) note.textContent = "ended by: " + part.ended;
    }
  }
}

// ---- predictions as elements

function shown(answer, row, labels) {
  if (typeof answer === "number") return [make("p", { className: "score", textContent: round(answer) })];
  if ("entity_labels" in answer) return [entities(answer, row.text_a)];
  if ("answer" in answer) return span(answer, row.context);
  if ("words" in answer && "texts" in answer) return [filled(answer, row.text)];
  if (labels.length && "probabilities" in answer) {
    const chosen = answer.is_label ? labels.filter((_, at) => answer.is_label[at]) : [answer.label];
    return [make("p", {}, "label: ", make("strong", { textContent: chosen.join(", ") || "none" })),
      bars(labels.map((label, at) => [label, answer.probabilities[at], chosen.includes(label)]))];
  }
  return [make("pre", { textContent: JSON.stringify(answer, null, 1) })];
}

const round = number => String(Number(number.toPrecision(4)));
const percent = share => (100 * share).toFixed(1) + "\u00a0%";

// Bars for rows of [name, probability, whether it is chosen], most probable first.
function bars(rows) {
  return make("div", { className: "bars" }, ...rows.sort((a, b) => b[1] - a[1]).slice(0, BARS).flatMap(
    ([what, probability, chosen]) => {
      const inner = make("div");
      inner.style.width = 100 * Math.min(probability, 1) + "%";
      const name = make("span", { className: chosen ? "chosen" : "" }, what);
      return [name, make("span", { textContent: percent(probability) }), make("div", { className: "bar" }, inner)];
    }));
}

// A text with marks over characters start to end: [[start, end, label], ...] in order.
function marked(text, spans) {
  const characters = Array.from(text);            // as the server counts them
  const parts = [];
  let at = 0;
  for (const [start, end, label] of spans) {
    parts.push(characters.slice(at, start).join(""), make("mark", {}, characters.slice(start, end).join(""),
      ...(label ? [make("small", { textContent: label })] : [])));
    at = end;
  }
  return make("div", { className: "text", dir: "auto" }, ...parts, characters.slice(at).join(""));
}

function entities(answer, text) {
  return marked(text, answer.entity_labels.map((label, at) =>
    [answer.entity_starts[at], answer.entity_ends[at], label]).filter(([, , label]) => label));
}

function span(answer, context) {
  const has = answer.start >= 0;
  return [make("p", {}, has ? "answer: " : "no answer in this text", make("strong", { textContent: answer.answer })),
    marked(context, has ? [[answer.start, answer.end]] : []),
    bars(answer.texts.map((text, at) => [text, answer.probabilities[at], has && !at]).filter(([text]) => text)),
    make("p", { textContent: "probability that there is no answer: " + percent(answer.null_probability) })];
}

function filled(answer, text) {
  const parts = text.split(/_{3,}/);
  return bars(answer.words.map((words, at) => [
    make("span", {}, ...parts.flatMap((part, gap) => gap ? [make("mark", { textContent: words[gap - 1] }), part] : [part])),
    answer.probabilities[at], !at]));
}

get("form").addEventListener("submit", ask);
get("stop").addEventListener("click", () => abort.abort());
start();
