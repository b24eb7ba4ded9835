// Answers of a model as elements: a function for each kind.

import { bars, copy, count, headline, hint, make, percent, round, roving, signed } from "./elements.js";

const COLOURS = 8;          // of entity labels; more labels share them
const AROUND = 30;          // characters shown on each side of a blank

// How many tokens the vocabulary does not know.
export function whatIsUnknown({ unknown_tokens: unknown }) {
  if (!unknown) return [];
  const said = `The vocabulary does not know ${unknown > 1 ? `${count(unknown)} tokens` : "a token"} of this.`;
  return [make("p", { className: "warning", textContent: said })];
}

// How much of the texts was read.
export function whatWasRead({ tokens_read, tokens }) {
  if (tokens === null || tokens === undefined) return [];
  if (tokens_read >= tokens) return [hint(`All ${count(tokens)} tokens were read.`)];
  return [make("p", { className: "cut", textContent:
    `${count(tokens_read)} of ${count(tokens)} tokens were read; the rest does not count.` })];
}

export function labelled(answer, labels) {
  const chosen = answer.is_label ? labels.filter((_, at) => answer.is_label[at]) : [answer.label];
  return [
    headline(chosen.join(", ") || "none of the labels", answer.is_label ? ""
      : percent(answer.probabilities[labels.indexOf(answer.label)])),
    bars(labels.map((label, at) => [label, answer.probabilities[at], chosen.includes(label)])),
  ];
}

// The answers that were typed; the model has as many places as its labels, the others are empty.
export function chosenAnswer(answer, choices) {
  const given = choices.map((text, at) => [text, answer.probabilities[at]])
    .filter(([text]) => text.trim());
  const best = given.reduce((a, b) => (b[1] > a[1] ? b : a));
  return [headline(best[0], percent(best[1])),
    bars(given.map(([text, probability]) => [text, probability, text === best[0]]))];
}

// Whether these words are in the text, one behind the other. A task's replacements make others.
function hasInOrder(text, words) {
  let end = 0;
  for (const word of words) {
    const begin = text.indexOf(word, end);
    if (begin < 0) return false;
    end = begin + word.length;
  }
  return true;
}

// The words of one or two texts, shaded by how much they count, and their numbers: of the word
// under the pointer, or that was tapped or reached by the keyboard, and of all as a table.
export function explained({ words, weights, is_read: isRead, first_words: first, output, value }, row,
  isScore) {
  const texts = [row.text_a, row.text_b];
  const most = Math.max(...weights.map(Math.abs)) || 1;
  const readout = make("p", { className: "readout", role: "status",
    textContent: "Point at a word, tap it, or go to it with Tab and the arrow keys." });
  const marks = [];
  const shaded = texts.filter(text => text !== undefined).map((asked, second) => {
    const ofText = second ? words.slice(first) : words.slice(0, first);
    const text = hasInOrder(asked, ofText) ? asked : ofText.join(" ");
    const parts = [];
    let end = 0;
    for (let at = second ? first : 0; at < (second ? words.length : first); at++) {
      const begin = text.indexOf(words[at], end);
      const said = isRead[at] ? signed(weights[at]) : "not read";
      const mark = make("mark", { role: "button", textContent: words[at],
        className: isRead[at] ? weights[at] < 0 ? "lowers" : "raises" : "unread",
        ariaLabel: words[at] + ": " + said });
      mark.style.setProperty("--part", Math.round(100 * Math.abs(weights[at]) / most) + "%");
      const show = () => { readout.textContent = words[at] + ": " + said; };
      for (const event of ["pointerenter", "focus", "click"]) mark.addEventListener(event, show);
      parts.push(text.slice(end, begin), mark);
      marks.push(mark);
      end = begin + words[at].length;
    }
    return make("div", { className: "text", dir: "auto" }, ...parts, text.slice(end));
  });
  const place = make("div", { className: "words" }, ...shaded);
  roving(place, marks);
  const cells = (tag, ...values) => make("tr", {},
    ...values.map(textContent => make(tag, { textContent, dir: "auto" })));
  return [
    make("h2", { textContent: isScore ? `Words that count for the score, ${round(value)}`
      : `Words that count for ${output}, ${percent(value)}` }),
    hint("Blue words raise it, orange, underlined words lower it; a stronger colour counts more."),
    place, readout,
    make("details", {}, make("summary", { textContent: "The numbers as a table" }),
      make("table", {}, make("thead", {}, cells("th", "Word", "Change")),
        make("tbody", {}, ...words.map((word, at) => cells("td", word, signed(weights[at])))))),
  ];
}

// A text with marks over characters start to end: [[start, end, label, class], ...] in order.
function marked(text, spans) {
  const characters = Array.from(text);            // as the server counts them
  const parts = [];
  let at = 0;
  for (const [start, end, label, className = ""] of spans) {
    const mark = make("mark", { className }, characters.slice(start, end).join(""));
    if (label) mark.append(make("small", { textContent: label }));
    parts.push(characters.slice(at, start).join(""), mark);
    at = end;
  }
  return make("div", { className: "text", dir: "auto" }, ...parts, characters.slice(at).join(""));
}

export function entities(answer, text) {
  const found = answer.entities.map(({ start, end, label }) => [start, end, label])
    .filter(([, , label]) => label);
  const names = [...new Set(found.map(([, , label]) => label))].sort();
  const colour = label => "c" + names.indexOf(label) % COLOURS;
  const count = found.length ? found.length + (found.length > 1 ? " entities" : " entity")
    : "no entities";
  return [
    headline(count),
    make("p", { className: "legend" },
      ...names.map(label => make("mark", { className: colour(label), textContent: label }))),
    marked(text, found.map(([start, end, label]) => [start, end, label, colour(label)])),
  ];
}

export function span(answer, context) {
  const has = answer.start !== null;
  const others = bars(answer.best.map(({ text, probability }, at) => [text, probability, has && !at])
    .filter(([text]) => text));
  if (!has) others.classList.add("rejected");
  return [
    has ? headline(answer.text, percent(answer.best[0].probability))
      : headline("No answer in this text", percent(answer.null_probability)),
    marked(context, has ? [[answer.start, answer.end]] : []),
    make("h2", { textContent: has ? "Best spans" : "Rejected spans" }),
    others,
    make("p", { textContent: "probability that there is no answer: "
      + percent(answer.null_probability) }),
  ];
}

// Fillings with some characters around each blank; a click puts the words into the text.
export function filled(answer, text, put) {
  const parts = text.split(/_{3,}/);
  const around = (part, at) => {
    if (at && at < parts.length - 1 || part.length <= AROUND) return part;
    return at ? part.slice(0, AROUND) + "\u2026" : "\u2026" + part.slice(-AROUND);
  };
  const rows = answer.map(({ text: whole, words, probability }, row) => {
    const shown = parts.flatMap((part, at) =>
      [...at ? [make("mark", { textContent: words[at - 1] })] : [], around(part, at)]);
    const button = make("button", { type: "button", title: "put into the text",
      onclick: () => put(whole) }, ...shown);
    return [button, probability, !row];
  });
  return [bars(rows)];
}

// How similar two texts are, and how similar other texts are that have nothing to do with each
// other: vectors of a network lie in a narrow cone, so 0.9 may be little.
export function similarity(answers, hasOther) {
  const vectors = answers.map(answer => answer.vector || answer);
  const norm = vector => Math.hypot(...vector);
  const cosine = (a, b) => a.reduce((sum, x, at) => sum + x * b[at], 0) / norm(a) / norm(b);
  const mine = hasOther ? 2 : 1;
  const found = [];
  if (hasOther) {
    const value = cosine(vectors[0], vectors[1]);
    found.push(headline(value.toFixed(3), "cosine similarity, at most 1"));
    const others = vectors.flatMap((a, i) => vectors.slice(i + 1)
      .filter((_, j) => i + 1 + j >= mine).map(b => cosine(a, b)));
    if (others.length) found.push(...baseline(value, others));
  }
  return [...found, ...vectors.slice(0, mine).map((vector, at) => {
    const button = make("button", { type: "button", textContent: "Copy vector" });
    button.onclick = () => copy(button, JSON.stringify(vector));
    return make("p", {}, `Vector of the ${["first", "second"][at]} text: ${vector.length} numbers, `
      + `length ${round(norm(vector))} `, button);
  })];
}

function baseline(value, others) {
  const mean = others.reduce((a, b) => a + b) / others.length;
  const least = Math.min(value, ...others, 0.99), low = least - 0.1 * (1 - least);
  const tick = (at, className) => {
    const element = make("i", { className });
    element.style.left = 100 * (at - low) / (1 - low) + "%";
    return element;
  };
  return [
    make("div", { className: "scale", role: "img", ariaLabel: `these texts ${value.toFixed(3)}, `
      + `other pairs ${others.map(each => each.toFixed(3)).join(", ")}` },
    ...others.map(each => tick(each, "other")), tick(value, "this")),
    hint(`Thin lines: pairs with the texts of the examples, ${mean.toFixed(3)} on average. The thick `
      + `line: these two texts, ${value > Math.max(...others) ? "more similar than each of them"
        : value > mean ? "more similar than the average pair" : "no more similar than those"}.`),
  ];
}
