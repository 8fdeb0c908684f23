/**
 * Lines over time as SVG: themed by the style sheet, the same on the page and in an exported report,
 * which holds no script.
 */
import { el } from './dom.js';
import { count } from './format.js';

const SVG = 'http://www.w3.org/2000/svg';
const HEIGHT = 150;
const WIDTH_MIN = 220;
const MARGIN = { top: 10, right: 8, bottom: 20, left: 44 };
/** More points than pixels show nothing more. */
const POINTS_MAX = 1_200;
/** A moving chart spans at least this long, so that its first seconds do not look like a storm. */
const SPAN_MS_MIN = 15_000;

/**
 * @typedef {{name: string, tone: string}} Series `tone` is a class: `ink`, `tag`, `hot`, `good`, `muted`
 * @typedef {{element: HTMLElement, add: (atMs: number, values: (number|null)[]) => void, svg: (width: number) => SVGElement}} Chart
 */

/**
 * A chart that grows to the right, or that shows the last `windowMs` when that is given.
 * @param {{label: string, series: Series[], windowMs?: number, timeText: (ms: number) => string, legend?: boolean}} options
 *   `timeText` writes a time on the axis, in milliseconds as given to `add`
 * @returns {Chart}
 */
export function lineChart({ label, series, windowMs = 0, timeText, legend = true }) {
  const points = [];
  const frame = el('div', { class: 'chart-frame' });
  const element = el('figure', { class: 'chart' }, el('figcaption', { text: label }), frame);
  if (legend && series.length > 1) element.append(legendOf(series));
  let drawAsked = false;
  new ResizeObserver(ask).observe(frame);

  function ask() {
    if (drawAsked) return;
    drawAsked = true;
    requestAnimationFrame(() => {
      drawAsked = false;
      if (frame.clientWidth > 0) frame.replaceChildren(svg(frame.clientWidth));
    });
  }

  function add(atMs, values) {
    points.push({ atMs, values });
    if (windowMs > 0) while (points.length > 2 && points[1].atMs < atMs - windowMs) points.shift();
    else if (points.length > POINTS_MAX) thin(points);
    ask();
  }

  function svg(width) {
    return draw({ points, series, windowMs, timeText, label, width: Math.max(WIDTH_MIN, width) });
  }

  return { element, add, svg };
}

function legendOf(series) {
  const entries = series.map(({ name, tone }) => el('li', { class: `tone-${tone}` }, el('i'), name));
  return el('ul', { class: 'legend' }, ...entries);
}

/** Every second point goes, but not the last. */
function thin(points) {
  const kept = points.filter((_, place) => place % 2 === 0 || place === points.length - 1);
  points.splice(0, points.length, ...kept);
}

function draw({ points, series, windowMs, timeText, label, width }) {
  const root = node('svg', { viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, role: 'img', 'aria-label': label });
  const values = points.flatMap((point) => point.values).filter((value) => value !== null);
  const { low, high, step } = scaleOf(values);
  const lastMs = points.at(-1)?.atMs ?? 0;
  const firstMs = windowMs > 0 ? Math.max(lastMs - windowMs, Math.min(points[0]?.atMs ?? 0, lastMs - SPAN_MS_MIN)) : 0;
  const spanMs = Math.max(1, lastMs - firstMs);
  const plot = { width: width - MARGIN.left - MARGIN.right, height: HEIGHT - MARGIN.top - MARGIN.bottom };
  const x = (atMs) => MARGIN.left + ((atMs - firstMs) / spanMs) * plot.width;
  const y = (value) => MARGIN.top + (1 - (value - low) / (high - low)) * plot.height;
  for (let mark = low; mark <= high + step / 2; mark += step) {
    root.append(
      node('line', { class: mark === 0 ? 'zero' : 'grid', x1: MARGIN.left, x2: width - MARGIN.right, y1: y(mark), y2: y(mark) }),
      node('text', { x: MARGIN.left - 6, y: y(mark) + 4, 'text-anchor': 'end' }, count(mark)),
    );
  }
  const edges = [
    [firstMs, 'start', MARGIN.left],
    [lastMs, 'end', width - MARGIN.right],
  ];
  for (const [atMs, anchor, place] of edges)
    root.append(node('text', { x: place, y: HEIGHT - 4, 'text-anchor': anchor }, timeText(atMs - (windowMs > 0 ? lastMs : 0))));
  series.forEach(({ tone }, place) => {
    const d = path(points, place, firstMs, x, y);
    if (d !== '') root.append(node('path', { class: `line tone-${tone}`, d }));
  });
  return root;
}

function path(points, place, firstMs, x, y) {
  let d = '';
  let pen = 'M';
  for (const { atMs, values } of points) {
    const value = values[place];
    if (value === null || value === undefined) {
      pen = 'M';
      continue;
    }
    d += `${pen}${x(Math.max(firstMs, atMs)).toFixed(1)} ${y(value).toFixed(1)}`;
    pen = 'L';
  }
  return d;
}

/** Round marks around the values: zero is always among them, and there are two to four steps. */
function scaleOf(values) {
  const least = Math.min(0, ...values);
  const most = Math.max(0, ...values);
  const rough = Math.max(1, (most - least) / 3);
  const size = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * size).find((candidate) => candidate >= rough);
  const low = Math.floor(least / step) * step;
  return { low, high: Math.max(low + step, Math.ceil(most / step) * step), step };
}

function node(name, attributes, words) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  if (words !== undefined) made.textContent = words;
  return made;
}
