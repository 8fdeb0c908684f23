/**
 * A run as one HTML file that needs nothing else: no script, no picture, no address outside itself.
 */
import { download } from '../desk.js';
import { el } from '../dom.js';
import { count, dateTime } from '../format.js';
import { languageTag, text } from '../strings.js';
import { verdictText } from './lane.js';
import { resultsTable } from './results.js';

const CHART_WIDTH = 420;
const STYLE = `
:root{color-scheme:light dark;--tag:#ffd60a;--paper:#f1f2ef;--surface:#fff;--ink:#15161a;--muted:#565a61;--line:#d3d6d0;--hot:#b4231a;--good:#0b6b3a}
@media(prefers-color-scheme:dark){:root{--paper:#101114;--surface:#1a1c20;--ink:#f3f4f1;--muted:#a6abb3;--line:#363a41;--hot:#ff8077;--good:#62d59b}}
body{margin:0 auto;max-width:76rem;padding:2rem 1.25rem 4rem;background:var(--paper);color:var(--ink);font:1rem/1.5 'Helvetica Neue',Helvetica,Arial,'PingFang SC','Microsoft YaHei',sans-serif}
h1{font-size:clamp(2rem,5vw,3.25rem);line-height:1.08;letter-spacing:-.025em;margin:0 0 .5rem}
h2{margin:2.5rem 0 1rem;letter-spacing:-.02em}h3{margin:0}
.code{font-family:ui-monospace,'SF Mono',Menlo,Consolas,monospace;font-weight:700}
.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%;background:var(--surface)}
th,td{padding:.5rem .6rem;border-bottom:1px solid var(--line);text-align:left;white-space:nowrap;font-weight:400}
thead th{color:var(--muted);font-size:.8125rem;line-height:1.3;white-space:normal;vertical-align:bottom}.number{text-align:right;font-variant-numeric:tabular-nums}
.bad{color:var(--hot);font-weight:800}.good{color:var(--good);font-weight:700}.muted{color:var(--muted)}
.unseen{position:absolute;clip-path:inset(50%);width:1px;height:1px;overflow:hidden}
.lanes{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,22rem),1fr));gap:1rem;list-style:none;padding:0}
.lanes li{padding:1rem;background:var(--surface);border-radius:.5rem}
svg{max-width:100%;height:auto}svg text{fill:var(--muted);font-size:11px}.grid{stroke:var(--line)}.zero{stroke:var(--muted)}
.line{fill:none;stroke-width:2;stroke-linejoin:round}.tone-ink{stroke:var(--ink)}.tone-hot{stroke:var(--hot)}.tone-good{stroke:var(--good)}
`;

/**
 * Make the file and offer it.
 * @param {object} run as the server tells it
 * @param {ReturnType<import('./lane.js').createLane>[]} lanes with their charts
 */
export function exportReport(run, lanes) {
  download(`seckill-lab-${run.id}.html`, 'text/html', reportOf(run, lanes));
}

/** The file's content. @param {object} run @param {ReturnType<import('./lane.js').createLane>[]} lanes */
function reportOf(run, lanes) {
  const { stock, buyers, concurrency } = run.request;
  const told = { stock: count(stock), buyers: count(buyers), concurrency: count(concurrency) };
  const page = document.implementation.createHTMLDocument(text('lab.reportTitle'));
  page.documentElement.lang = languageTag;
  page.head.prepend(el('meta', { charset: 'utf-8' }), el('meta', { name: 'viewport', content: 'width=device-width, initial-scale=1' }));
  page.body.append(
    el('h1', { text: text('lab.reportTitle') }),
    el('p', { class: 'muted', text: `${dateTime(run.created_at)} · ${location.host} · ${text('lab.reportCrowd', told)}` }),
    el('div', { class: 'scroll' }, resultsTable(lanes.map((lane) => lane.lane()))),
    el('h2', { text: text('lab.lanes') }),
    el('ul', { class: 'lanes' }, ...lanes.map(laneOf)),
    el('p', { class: 'muted', text: text('lab.reportFoot') }),
  );
  // Put in as text: as an element it would fall under the content security policy of this page.
  const html = page.documentElement.outerHTML.replace('</head>', `<style>${STYLE}</style></head>`);
  return `<!doctype html>\n${html}\n`;
}

function laneOf(entry) {
  const lane = entry.lane();
  const tone = lane.oversold > 0 ? 'bad' : 'good';
  const violations = lane.violations.map((sentence) => el('p', { class: 'muted', text: sentence }));
  return el(
    'li',
    {},
    el('h3', { class: 'code', text: lane.strategy }),
    el('p', { class: 'muted', text: text(`lab.arbiter.${lane.arbiter}`) }),
    el('p', { class: lane.state === 'done' ? tone : '', text: verdictText(lane) }),
    el('p', { class: 'muted', text: text('lab.stockChart') }),
    entry.charts.stock.svg(CHART_WIDTH),
    el('p', { class: 'muted', text: text('lab.rateChart') }),
    entry.charts.rate.svg(CHART_WIDTH),
    ...violations,
  );
}
