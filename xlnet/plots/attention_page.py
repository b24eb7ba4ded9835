"""The page of `attention.write_page`; DATA is replaced by a JSON object."""

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Attention</title>
<style>
body { font: 15px/1.4 system-ui, sans-serif; margin: 1.5rem auto; max-width: 75rem;
       padding: 0 1rem; color: #222; }
h1 { font-size: 1.2rem; }
.choices { display: flex; gap: 1.2rem; flex-wrap: wrap; margin: 1rem 0; }
.words { margin: 1rem 0; line-height: 2.1; }
.words span { padding: .15rem .3rem; border-radius: .25rem; margin: 1px; cursor: pointer;
              display: inline-block; border: 2px solid transparent; }
.words span.row { border-color: #222; }
.words sub { color: #a03000; }
canvas { border: 1px solid #c9c9c9; cursor: crosshair; }
.note { color: #555; font-size: .9rem; }
#scale { display: inline-block; width: 8rem; height: .8em; border: 1px solid #c9c9c9; }
</style>
</head>
<body>
<h1 id="title"></h1>
<div class="choices">
<label>Stream <select id="stream"></select></label>
<label>Layer <select id="layer"></select></label>
<label>Head <select id="head"></select></label>
</div>
<p class="note">Point at a piece, or at a row of the matrix (a query): the darker a piece, the more
the query attends to it. <span id="orders">Small numbers are positions in the factorization
order.</span></p>
<div class="words" id="words"></div>
<canvas id="matrix"></canvas>
<p class="note">Attention weight: 0 <span id="scale"></span> <span id="most"></span></p>
<p class="note" id="said"></p>
<script>
"use strict";
const data = DATA;
const colors = {content: [76, 120, 168], query: [224, 129, 43]};
const get = id => document.getElementById(id);
const size = data.pieces.length, cell = Math.max(9, Math.min(22, Math.floor(560 / size)));
const margin = 110, canvas = get("matrix"), context = canvas.getContext("2d");
let row = size - 1;

function options(id, values) {
  for (const [value, name] of values) {
    const option = document.createElement("option");
    option.value = value;
    option.textContent = name;
    get(id).append(option);
  }
  get(id).onchange = draw;
}

function matrix() {
  const heads = data.streams[get("stream").value][get("layer").value], head = get("head").value;
  if (head !== "mean") return heads[head];
  return heads[0].map((_, i) => heads[0].map((_, j) =>
    heads.reduce((sum, one) => sum + one[i][j], 0) / heads.length));
}

function shade(value) {
  return "rgba(" + colors[get("stream").value].join(",") + "," + value + ")";
}

function draw() {
  const shown = matrix(), largest = Math.max(...shown[row], 1e-9);
  [...get("words").children].forEach((word, j) => {
    word.style.background = shade(.75 * shown[row][j] / largest);
    word.className = j === row ? "row" : "";
  });
  context.clearRect(0, 0, canvas.width, canvas.height);
  context.font = Math.min(12, cell) + "px system-ui, sans-serif";
  const most = Math.max(...shown.map(values => Math.max(...values)), 1e-9);
  get("scale").style.background = "linear-gradient(to right," + shade(0) + "," + shade(1) + ")";
  get("most").textContent = most.toFixed(3);
  context.fillStyle = "#555";
  context.textAlign = "right";
  context.fillText("keys \u2192", margin - 5, margin - 24);
  context.fillText("queries \u2193", margin - 5, margin - 8);
  for (let i = 0; i < size; i++) {
    context.fillStyle = "#222";
    context.textAlign = "right";
    context.fillText(data.pieces[i], margin - 5, margin + (i + .8) * cell, margin - 8);
    context.save();
    context.translate(margin + (i + .8) * cell, margin - 5);
    context.rotate(-Math.PI / 2);
    context.textAlign = "left";
    context.fillText(data.pieces[i], 0, 0, margin - 8);
    context.restore();
    for (let j = 0; j < size; j++) {
      context.fillStyle = shade(shown[i][j] / most);
      context.fillRect(margin + j * cell, margin + i * cell, cell - 1, cell - 1);
    }
  }
  context.strokeStyle = "#222";
  context.strokeRect(margin - .5, margin + row * cell - .5, size * cell, cell);
  const best = shown[row].map((value, j) => [value, j]).sort((a, b) => b[0] - a[0]).slice(0, 5);
  get("said").textContent = best[0][0] ? data.pieces[row] + " attends to " + best.filter(
    one => one[0] >= .0005).map(one => data.pieces[one[1]] + " " + (100 * one[0]).toFixed(1) + " %"
    ).join(", ") : data.pieces[row] + " sees nothing: it is the first in the order";
}

get("title").textContent = data.title;
options("stream", Object.keys(data.streams).map(name => [name, name]));
options("layer", data.layers.map((layer, i) => [i, layer]));
options("head", [["mean", "mean of all"], ...data.streams.content[0].map((_, i) => [i, i + 1])]);
data.pieces.forEach((piece, i) => {
  const word = document.createElement("span");
  word.textContent = piece;
  if (data.places) {
    const place = document.createElement("sub");
    place.textContent = data.places[i];
    word.append(place);
  }
  word.onmouseover = () => { row = i; draw(); };
  get("words").append(word);
});
get("orders").hidden = !data.places;
canvas.width = margin + size * cell + 2;
canvas.height = margin + size * cell + 2;
canvas.onmousemove = event => {
  const at = Math.floor((event.offsetY - margin) / cell);
  if (at >= 0 && at < size && at !== row) { row = at; draw(); }
};
draw();
</script>
</body>
</html>
"""
