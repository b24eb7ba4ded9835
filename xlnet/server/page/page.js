// The page of a served model: fields by signature, requests, and where the answers go.

import { chosenAnswer, entities, explained, filled, labelled, similarity, span, whatIsUnknown,
  whatWasRead } from "./answers.js";
import { copy, count, get, headline, hint, make, percent, round } from "./elements.js";
import { attention, play } from "./streams.js";

const GONE = `The server at ${location.host} does not answer. It may have ended, or the network is down.`;
const ENDED = { length: "as long as was asked for", stop: "ended by the stop text",
  document: "the model ended the text" };

const drafts = {};          // what is entered, of each signature
const shownBefore = {};     // its answer, as elements
const shownFor = {};        // what was entered when that was asked for, as JSON
let forms;                  // forms.json: of each signature its words, fields and parameters
let examples;               // examples.json: of each signature some inputs
let model, signatures, current, running;

async function request(path, options) {
  let answer;
  try {
    answer = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error(GONE);
  }
  if (answer.ok) return answer;
  const text = await answer.text();
  let said = text.trim();
  try {
    said = JSON.parse(text).error;
  } catch { /* a proxy answers in its own words */ }
  throw new Error(said && !said.startsWith("<") ? said : `The server refuses (${answer.status}).`);
}

const fetchJson = async (path, options) => (await request(path, options)).json();

async function start() {
  try {
    [forms, examples] = await Promise.all(["forms.json", "examples.json"].map(path => fetchJson(path)));
    const { models: [{ name }] } = await fetchJson("v1/models");
    const path = "v1/models/" + encodeURIComponent(name);
    model = { path, name, ...await fetchJson(path) };
    signatures = model.signatures;
  } catch (error) {
    return fail(error);
  }
  document.title = get("name").textContent = model.name;
  get("about").textContent = whatItDoes();
  get("model").textContent = whatModel(model.model);
  // What explains a prediction has no tab: it is asked for below a prediction.
  const tabs = Object.keys(signatures).filter(name => name !== "explain")
    .sort((a, b) => (b === "factorize") - (a === "factorize"));
  get("signatures").append(...tabs.map(name => make("button", { type: "button",
    textContent: form(name).tab, onclick: () => choose(name), "data-signature": name })));
  for (const [name, [first, second]] of Object.entries(examples)) {
    drafts[name] = { row: { ...first } };
    if (name === "vectors") drafts.vectors.row.other = second.text_a;
  }
  // What a pretrained model shows first is the paper's idea.
  const first = model.verb === null && signatures.factorize ? "factorize" : model.default_signature;
  if (!openLink()) choose(first);
}

// What it does, with its first labels.
function whatItDoes() {
  const { about } = forms[model.verb] || forms.pretrained;
  if (model.verb !== "classify" || !model.labels) return about;
  return about + ": " + model.labels.slice(0, 20).join(", ") + (model.labels.length > 20 ? ", ..." : "");
}

// What model it is, in a line.
function whatModel({ layers, width, vocabulary, objective, task, checkpoint }) {
  const trained = task ? `fine-tuned for ${task}` : `pretrained with the ${objective} objective`;
  return `XLNet, ${layers} layers of width ${width}, ${count(vocabulary)} tokens, ${trained}; ${checkpoint}`;
}

// A link with the input, if the address is one.
function openLink() {
  let linked = null;
  try {
    linked = JSON.parse(decodeURIComponent(location.hash.slice(1)));
  } catch { /* none */ }
  if (!linked || !signatures[linked.signature]) return false;
  drafts[linked.signature] = linked;
  delete shownFor[linked.signature];
  current = null;
  choose(linked.signature);
  return true;
}

// The form of a signature; what a fine-tuned model does is not named by its signature.
const form = name => forms[name === "text" ? model.verb : name] || { tab: name, button: "Predict" };
// A model that reads from left to right alone, without `factorize`, has no other order.
const parametersOf = name => Object.entries(form(name).parameters || {})
  .filter(([key]) => name !== "attention" || key === "layer" || "factorize" in model.signatures);

function choose(name) {
  if (current) {
    drafts[current] = entered();
    shownBefore[current] = [...get("answer").childNodes];
  }
  if (running) running.abort();
  running = null;
  get("wait").textContent = "";
  get("stop").hidden = true;
  current = name;
  for (const button of get("signatures").children)
    button.setAttribute("aria-pressed", button.dataset.signature === name);
  const titles = { text_a: "Text", text_b: "Second text", ...form(name).fields };
  const keys = [...signatures[name], ...name === "vectors" ? ["other"] : []];
  const place = key => ({ question: -1, choices: 1 })[key] || 0;
  keys.sort((a, b) => place(a) - place(b));
  get("fields").replaceChildren(...keys.flatMap((key, at) => [
    make("label", { htmlFor: "in-" + key, textContent: titles[key] || key }),
    make("textarea", { id: "in-" + key, rows: key === "question" ? 1 : at ? 3 : 4, dir: "auto",
      required: key !== "other" })]));
  get("parameters").replaceChildren(...parametersOf(name).map(parameter));
  get("more").hidden = !parametersOf(name).length;
  const rows = examples[name] || [];
  get("examples").hidden = !rows.length;
  get("examples").replaceChildren("Examples:", ...rows.map(row => make("button", {
    type: "button", textContent: String(Object.values(row)[0]),
    onclick: () => { enter({ row }); get("form").requestSubmit(); } })));
  get("same").hidden = true;
  get("ask").textContent = form(name).button;
  enter(drafts[name] || {});
  // The answer comes back with its own input alone.
  const isOfThis = shownFor[name] === JSON.stringify(entered());
  get("answer").replaceChildren(...isOfThis ? shownBefore[name] : []);
  markStale();
  if (isOfThis) describe(body());
  else if (get("form").checkValidity()) get("form").requestSubmit();
}

// Greys an answer that is not to what is entered.
function markStale() {
  get("answer").classList.toggle("stale", shownFor[current] !== undefined
    && shownFor[current] !== JSON.stringify(entered()));
}

// The field of a parameter with its title: one of some options, a text, or a number.
function parameter([key, { title, value, options, min, max }]) {
  const layers = Array.from({ length: model.model.layers }, (_, at) => [at + 1, at + 1]);
  const listed = options === "layers" ? layers : options && Object.entries(options);
  const field = listed
    ? make("select", {}, ...listed.map(([name, textContent]) =>
      make("option", { value: name, textContent, selected: name === value })))
    : make("input", { type: typeof value === "string" ? "text" : "number", step: "any",
      value: value ?? "", placeholder: value ?? "a new one", min: min ?? "", max: max ?? "" });
  field.id = "set-" + key;
  field.onchange = () => {
    showParameters();
    if (form(current).again) get("form").requestSubmit();
  };
  return make("div", {}, make("label", { htmlFor: field.id, textContent: title }), field);
}

// Whether a parameter counts, with these values of the others.
const counts = ({ only = {} }, values) =>
  Object.entries(only).every(([name, value]) => values[name] === value);

function showParameters() {
  const { parameters } = entered();
  for (const [key, field] of parametersOf(current))
    get("set-" + key).parentElement.hidden = !counts(field, parameters);
}

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
      if (field) field.value = Array.isArray(value) ? value.filter(Boolean).join("\n") : value;
    }
  showParameters();
  markStale();
}

// The body of the request; a number that was cleared is left to the server.
function body() {
  const { row, parameters } = entered();
  const { other, ...first } = row;
  if ("choices" in first)
    first.choices.push(...Array(Math.max(0, model.labels.length - first.choices.length)).fill(""));
  const asked = { signature_name: current, instances: [first] };
  if (current === "vectors" && other.trim()) {
    // With the texts of the examples, which say how similar texts are anyway.
    const others = examples.vectors.map(({ text_a }) => text_a)
      .filter(text => text !== first.text_a && text !== other);
    asked.instances.push(...[other, ...others].map(text_a => ({ text_a })));
  }
  const set = {};
  for (const [key, field] of parametersOf(current)) {
    const value = parameters[key];
    if (value !== "" && counts(field, parameters))
      set[key] = typeof field.value === "string" ? value : Number(value);
  }
  const { layer, own, ...others } = set;
  if (others.order === "own") others.order = own || "left_to_right";
  if (layer) others.layers = [layer];
  if (current === "factorize") others.top = 6;
  if (Object.keys(others).length) asked.parameters = others;
  return asked;
}

// Sends a request and shows the answer in an element; the server drops the request before it.
async function send(asked, place) {
  if (running) running.abort();
  const mine = running = new AbortController();
  const streams = asked.signature_name === "generate";
  const began = Date.now(), input = JSON.stringify(entered());
  const tick = () => { get("wait").textContent = Math.round((Date.now() - began) / 1000) + " s"; };
  const clock = setInterval(tick, 1000);
  tick();
  get("stop").hidden = false;
  describe(asked);
  try {
    const options = { method: "POST", signal: mine.signal,
      body: JSON.stringify(streams ? { ...asked, stream: true } : asked) };
    if (streams) await generate(asked.instances[0], options, () => answered(place, input));
    else {
      const answer = await fetchJson(model.path + ":predict", options);
      if (running === mine) {
        const isEdited = input !== JSON.stringify(entered());
        place.replaceChildren(...shown(answer, asked));
        // The order of the answer may have been put into its field.
        answered(place, isEdited ? input : JSON.stringify(entered()));
      }
    }
  } catch (error) {
    if (running === mine) answered(place, input);
    if (running === mine && error.name !== "AbortError") fail(error, place);
    else if (running === mine) place.append(make("p", { textContent: "stopped" }));
  }
  clearInterval(clock);
  if (running !== mine) return;         // another request, or tab, came meanwhile
  running = null;
  get("wait").textContent = "";
  get("stop").hidden = true;
}

// Notes for which input the answer is.
function answered(place, input) {
  if (place !== get("answer")) return;
  shownFor[current] = input;
  markStale();
}

// The request as a link, for a shell and in Python.
function describe(asked) {
  const url = new URL(model.path + ":predict", location.href).href;
  const text = JSON.stringify(asked);
  const quoted = value => "'" + value.replaceAll("'", "'\\''") + "'";
  get("curl").textContent = "curl " + quoted(url) + " -d " + quoted(text);
  get("python").textContent = "import json, urllib.request\n\nasked = json.loads("
    + JSON.stringify(text) + ")\nwith urllib.request.urlopen(" + JSON.stringify(url)
    + ", json.dumps(asked).encode()) as answer:\n    print(json.load(answer))";
  history.replaceState(null, "", "#" + encodeURIComponent(JSON.stringify(
    { signature: current, ...entered() })));
  get("same").hidden = false;
}

function fail(error, place = get("answer")) {
  // The server names a field by its key, the page by its title.
  const titles = { text_a: "Text", text_b: "Second text", ...current && form(current).fields };
  for (const [key, { title }] of current ? parametersOf(current) : []) titles[key] = title;
  const text = error.message.replace(/^instance 0: |^parameters: /, "")
    .replace(/\b[a-z_]+\b/, key => titles[key] || key);
  const said = make("p", { className: "error", role: "alert", textContent: text });
  if (error.hasBegun) place.append(said);   // behind the text that has arrived
  else place.replaceChildren(said);
}

// Shows generated text as it arrives, a JSON object a line; each token has its probability.
async function generate(row, options, begun) {
  const answer = await request(model.path + ":predict", options);
  const text = make("div", { className: "text", dir: "auto" }, row.prompt);
  const note = make("p");
  get("answer").replaceChildren(text, note);
  begun();
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read()
      .catch(error => {
        throw error.name === "AbortError" ? error : Object.assign(new Error(GONE), { hasBegun: true });
      });
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const part of lines.map(line => JSON.parse(line))) {
      if (part.error) throw Object.assign(new Error(part.error), { hasBegun: true });
      if (part.text) {
        const token = make("span", { className: "token", textContent: part.text });
        if (part.probability !== undefined) {
          token.title = "probability " + percent(part.probability);
          token.style.borderBottomColor = `color-mix(in srgb, var(--accent) ${
            Math.round(100 * part.probability)}%, transparent)`;
        }
        text.append(token);
      }
      if (part.ended) {
        note.textContent = ENDED[part.ended] || part.ended;
        note.after(...whatIsUnknown(part));
      }
    }
  }
}

// An answer as elements, by its signature and what the model does.
function shown({ predictions, labels = [], ...counts }, asked) {
  const [answer] = predictions, [row] = asked.instances, name = asked.signature_name;
  // What was read of the first example.
  const first = Object.fromEntries(Object.entries(counts).map(([key, [value]]) => [key, value]));
  if (name === "explain") return explained(answer, row, !model.labels);
  return [...elements(), ...whatIsUnknown(first),
    ...form(name).again ? [] : whatWasRead(first), ...why(asked)];

  function elements() {
    if (name === "vectors") return similarity(predictions, predictions.length > 1);
    if (name === "fill") return filled(answer, row.text, put);
    if (name === "attention") {
      if (answer.places) noteOrder(answer.places.map((place, at) => [place, at])
        .sort((a, b) => a[0] - b[0]).map(([, at]) => at));
      return attention(answer);
    }
    if (name === "factorize") {
      noteOrder(answer.order);
      return play(answer, reorder);
    }
    if (typeof answer === "number") return [headline(round(answer))];
    if ("entities" in answer) return entities(answer, row.text_a);
    if ("best" in answer) return span(answer, row.context);
    if (model.verb === "choose") return chosenAnswer(answer, row.choices);
    if (labels.length && "probabilities" in answer) return labelled(answer, labels);
    return [make("pre", { textContent: JSON.stringify(answer, null, 1), tabIndex: 0 })];
  }
}

function put(text) {
  // As if it was typed, so that the browser can undo it.
  get("in-text").focus();
  get("in-text").select();
  document.execCommand("insertText", false, text);
}

const noteOrder = order => { get("set-own").value = order.map(at => at + 1).join(","); };

// Asks for the same text in another order; `focused` is the number of the token that stays chosen.
async function reorder(order, focused) {
  get("set-order").value = "own";
  noteOrder(order);
  showParameters();
  await send(body(), get("answer"));
  if (focused !== undefined) get("answer").querySelectorAll(".chip")[focused]?.focus();
}

// A button that asks how much each word counts for a prediction, and the place for the answer.
function why(asked) {
  if (asked.signature_name !== "text" || !signatures.explain) return [];
  const place = make("div");
  return [make("button", { id: "why", type: "button", textContent: "Why? Show the words that count",
    onclick: () => send({ signature_name: "explain", instances: asked.instances }, place) }), place];
}

get("form").addEventListener("input", markStale);
get("more").open = !matchMedia("(max-width: 40rem)").matches;
get("form").addEventListener("submit", event => {
  event.preventDefault();
  send(body(), get("answer"));
});
get("form").addEventListener("keydown", event => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) get("form").requestSubmit();
});
get("stop").addEventListener("click", () => running && running.abort());
get("link").addEventListener("click", () => copy(get("link"), location.href));
addEventListener("hashchange", openLink);
start();
