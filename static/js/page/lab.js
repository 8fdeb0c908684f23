/**
 * The lab: choose, run, watch each strategy sell its stock, read the verdicts, take them along.
 */
import { get, post, remove } from '../api.js';
import { fetchStrategies, keepDoor, reason } from '../desk.js';
import { announce, byId, el, setText } from '../dom.js';
import { count, dateTime } from '../format.js';
import { startFrame } from '../frame.js';
import { canRun, drawChoices, readRun, setRun } from '../lab/form.js';
import { drawGallery } from '../lab/gallery.js';
import { createLane, verdictText } from '../lab/lane.js';
import { exportReport } from '../lab/report.js';
import { resultsTable } from '../lab/results.js';
import { follow } from '../live.js';
import { currentSession, isOperator, signInAddress } from '../session.js';
import { text } from '../strings.js';

const POLL_MS = 1_000;
const LOAD_RETRY_MS = 3_000;

/** The run on show. @type {any} */
let run = null;
/** @type {ReturnType<typeof createLane>[]} */
let lanes = [];
let stream = null;
let drawAsked = false;

startFrame('title.lab');
load();

async function load() {
  try {
    drawChoices(await fetchStrategies());
  } catch {
    setTimeout(load, LOAD_RETRY_MS);
    return;
  }
  drawGallery({ canRun, onBreak: breakIt });
  byId('lab-form').addEventListener('submit', (event) => {
    event.preventDefault();
    start(readRun());
  });
  byId('stop').addEventListener('click', stop);
  byId('export').addEventListener('click', () => exportReport(run, lanes));
  keepDoor(loadRuns);
}

/** Runs go on without their page: show the latest, which may still be at it. */
async function loadRuns() {
  try {
    const { runs } = await get('/api/lab/runs');
    drawRuns(runs);
    const running = runs.find(({ state }) => state === 'running');
    if (running !== undefined && run === null) show(running);
  } catch {
    // A convenience only: a new run says what is wrong.
  }
}

function breakIt(wanted) {
  if (currentSession() === null) return location.assign(signInAddress('#gallery'));
  if (!isOperator()) return showDoor();
  if (!canRun(wanted)) return;
  setRun(wanted);
  // In its own order: the wrong way first.
  start({ ...readRun(), strategies: wanted.strategies });
}

/** Says to a signed-in buyer who may do this. */
function showDoor() {
  byId('door').scrollIntoView({ block: 'center' });
  announce(text('desk.notOperator'));
}

async function start(wanted) {
  setText(byId('run-error'), '');
  if (wanted.strategies.length === 0) return setText(byId('run-error'), text('lab.chooseOne'));
  try {
    show(await post('/api/lab/runs', wanted));
    byId('stage').scrollIntoView();
    byId('stage-heading').focus({ preventScroll: true });
  } catch (error) {
    setText(byId('run-error'), error.code === 'lab_busy' ? text('lab.busy') : reason(error));
    byId('run-error').scrollIntoView({ block: 'center' });
    if (error.code === 'lab_busy') loadRuns();
  }
}

async function stop() {
  try {
    await remove(`/api/lab/runs/${run.id}`);
  } catch (error) {
    setText(byId('run-error'), reason(error));
  }
}

function show(shown) {
  stream?.close();
  stream = null;
  run = shown;
  lanes = run.lanes.map(createLane);
  byId('lanes').replaceChildren(...lanes.map((lane) => lane.element));
  byId('stage').hidden = false;
  byId('results').replaceChildren();
  const { stock, buyers, concurrency } = run.request;
  setText(byId('stage-crowd'), text('lab.reportCrowd', { stock: count(stock), buyers: count(buyers), concurrency: count(concurrency) }));
  if (run.state === 'running') {
    const path = `/api/lab/runs/${run.id}`;
    stream = follow(`${path}/events`, {
      events: { run: takeRun, progress: takeLane, lane: takeLane, done: takeRun },
      poll: async () => takeRun(await get(path).catch(() => run)),
      pollMs: POLL_MS,
    });
  }
  askDraw();
}

function takeLane(news) {
  lanes[news.index]?.take(news);
  if (news.verdict) announce(`${news.strategy}: ${verdictText(news)}`);
  askDraw();
}

function takeRun(news) {
  if (news.id !== run.id) return;
  run = news;
  for (const lane of run.lanes) lanes[lane.index]?.take(lane);
  if (run.state !== 'running') {
    stream?.close();
    stream = null;
    loadRuns();
  }
  askDraw();
}

/** Events come faster than anybody can look. */
function askDraw() {
  if (drawAsked) return;
  drawAsked = true;
  requestAnimationFrame(() => {
    drawAsked = false;
    draw();
  });
}

function draw() {
  // One scale for all lanes: their lengths are there to be compared.
  const scale = Math.max(...lanes.map((lane) => lane.reach()));
  for (const lane of lanes) lane.draw(scale);
  const running = run.state === 'running';
  byId('stage').dataset.state = run.state;
  byId('stop').hidden = !running;
  byId('export').hidden = running;
  const oversold = lanes.reduce((sum, lane) => sum + lane.lane().oversold, 0);
  setText(byId('stage-state'), text(`lab.run.${run.state}`));
  setText(byId('stage-oversold'), oversold > 0 ? text('lab.totalOversold', { count: oversold, number: count(oversold) }) : '');
  const ended = lanes.map((lane) => lane.lane()).filter(({ state }) => ['done', 'failed', 'skipped'].includes(state));
  byId('results-part').hidden = ended.length === 0;
  const signature = ended.map(({ index, state, verdict }) => `${index}${state}${verdict}`).join();
  if (ended.length === 0 || byId('results').dataset.signature === signature) return;
  byId('results').dataset.signature = signature;
  byId('results').replaceChildren(resultsTable(ended));
}

function drawRuns(runs) {
  byId('runs-part').hidden = runs.length === 0;
  const rows = runs.map((earlier) => {
    const names = [...new Set(earlier.lanes.map(({ strategy }) => strategy))].join(', ');
    const words = `${dateTime(earlier.created_at)} · ${text(`lab.run.${earlier.state}`)}`;
    const button = el('button', { class: 'run-row', type: 'button', onClick: () => showEarlier(earlier.id) }, el('strong', { class: 'code', text: names }), el('span', { class: 'hint', text: words }));
    return el('li', {}, button);
  });
  byId('runs').replaceChildren(...rows);
}

async function showEarlier(id) {
  try {
    show(await get(`/api/lab/runs/${id}`));
    byId('stage').scrollIntoView();
  } catch (error) {
    setText(byId('run-error'), reason(error));
  }
}
