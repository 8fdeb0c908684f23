/**
 * The shop's clock in the browser: what time it is at the server, whatever the local clock says.
 *
 * Each answer that carries `server_time` is a sample. The server wrote it somewhere between our
 * sending and our receiving, so the middle is the best guess and half the round trip its error:
 * the quickest round trip wins. A sample is trusted for a while and then replaced by any newer
 * one, since crystals drift and computers sleep.
 */
const SAMPLE_AGE_MS_MAX = 60_000;
/** By how much the clocks of two servers may differ. */
const APART_MS_MAX = 1_000;

/** @type {{offsetMs: number, roundTripMs: number, takenAtMs: number} | null} */
let best = null;
const listeners = new Set();

/**
 * Take one sample.
 * @param {string} serverTime RFC 3339 from the answer
 * @param {number} sentAtMs `performance.now()` when the request left
 * @param {number} receivedAtMs `performance.now()` when the answer's head arrived
 */
export function observe(serverTime, sentAtMs, receivedAtMs) {
  const serverMs = Date.parse(serverTime);
  if (Number.isNaN(serverMs)) return;
  const roundTripMs = Math.max(0, receivedAtMs - sentAtMs);
  const offsetMs = serverMs - (sentAtMs + receivedAtMs) / 2;
  const isUsed = best !== null && receivedAtMs - best.takenAtMs <= SAMPLE_AGE_MS_MAX && !isOtherTime(offsetMs, roundTripMs);
  if (isUsed && roundTripMs > best.roundTripMs) return;
  best = { offsetMs, roundTripMs, takenAtMs: receivedAtMs };
}

/** Whether the best sample cannot be right beside a new one: the computer slept, and its steady clock stood still. */
function isOtherTime(offsetMs, roundTripMs) {
  return Math.abs(offsetMs - best.offsetMs) > (roundTripMs + best.roundTripMs) / 2 + APART_MS_MAX;
}

/** The server's time now. @returns {number} milliseconds since the epoch */
export function serverNowMs() {
  // performance.now() never jumps when the user or NTP sets the local clock.
  return best === null ? Date.now() : performance.now() + best.offsetMs;
}

/** Forget the samples: the computer slept, and the steady clock may have stood still meanwhile. */
export function distrust() {
  if (best !== null) best.takenAtMs = -Infinity;
}

/**
 * Call back once a second, just after the server's second changes, so that all countdowns on the
 * page step together.
 * @param {(nowMs: number) => void} listener
 * @returns {() => void} stop
 */
export function everySecond(listener) {
  listeners.add(listener);
  if (listeners.size === 1) schedule();
  return () => listeners.delete(listener);
}

function schedule() {
  if (listeners.size === 0) return;
  const untilNextSecondMs = 1000 - (serverNowMs() % 1000);
  setTimeout(() => {
    const nowMs = serverNowMs();
    for (const listener of listeners) listener(nowMs);
    schedule();
  }, untilNextSecondMs + 5);
}
