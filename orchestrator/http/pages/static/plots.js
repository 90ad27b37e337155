// Draws the plots of a query with uPlot, in the place of those that came with the page, and keeps them fresh.
//
// Without it the page's own plots stay, which show the same. The policy of the page allows no style in its markup;
// uPlot sets styles by script alone, which that does not concern.

const EVERY = 60000;
const APART = 301;
const SHORTEST = 600;
const HEIGHT = 170;
const section = document.getElementById("plots");
const drawn = new Map();

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function isApart(one, other) {
  const seconds = (Date.parse(other.at) - Date.parse(one.at)) / 1000;
  return seconds > APART || one.source !== other.source || one.target !== other.target;
}

// Times and values; a value that is none breaks the line.
function columns(samples, key) {
  const times = [];
  const values = [];
  samples.forEach((sample, index) => {
    if (index > 0 && isApart(samples[index - 1], sample)) {
      times.push(Date.parse(samples[index - 1].at) / 1000 + 1);
      values.push(null);
    }
    times.push(Date.parse(sample.at) / 1000);
    values.push(sample[key]);
  });
  return [times, values];
}

function axis(more) {
  return { stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, ...more };
}

function options(figure, data) {
  const now = Date.now() / 1000;
  const begin = Math.min(now - SHORTEST, Math.max(now - Number(section.dataset.hours) * 3600, data[0][0]));
  return {
    width: figure.clientWidth,
    height: HEIGHT,
    tzDate: (time) => uPlot.tzDate(new Date(time * 1000), "Etc/UTC"),
    cursor: { drag: { x: false, y: false } },
    scales: {
      x: { range: () => [begin, now] },
      y: { range: (_, __, most) => [0, Math.max(1, (most ?? 0) * 1.1)] },
    },
    axes: [axis({ size: 30, values: [[1, "{HH}:{mm}", null, null, null, null, null, null, 0]] }), axis({ size: 56, values: (_, ticks) => ticks.map((tick) => `${tick} s`) })],
    series: [
      { label: "UTC", value: "{HH}:{mm}:{ss}" },
      { label: figure.dataset.title, stroke: colour("--mark"), width: 2, spanGaps: false, points: { show: data[0].length < 3 }, value: (_, value) => (value === null || value === undefined ? "–" : `${value.toFixed(1)} s`) },
    ],
  };
}

function draw(figure, samples) {
  const data = columns(samples, figure.dataset.plot);
  const host = figure.querySelector(".plot");
  drawn.get(figure)?.destroy();
  host.replaceChildren();
  drawn.set(figure, new uPlot(options(figure, data), data, host));
}

async function refresh() {
  if (document.hidden) {
    return;
  }
  const answer = await fetch(section.dataset.samples, { cache: "no-store" }).catch(() => null);
  if (!answer?.ok) {
    return; // desk.js says what is wrong
  }
  const { samples } = await answer.json();
  if (samples.length > 0) {
    section.querySelectorAll("figure").forEach((figure) => draw(figure, samples));
  }
}

addEventListener("resize", () => {
  drawn.forEach((plot, figure) => plot.setSize({ width: figure.clientWidth, height: HEIGHT }));
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", refresh);
document.addEventListener("visibilitychange", refresh);
setInterval(refresh, EVERY);
refresh();
