/**
 * Live data: a server-sent event stream while one can be had, polling otherwise.
 *
 * A browser keeps at most six HTTP/1.1 connections per host, shared by all its tabs; streams that
 * took all six would freeze every request. So a stream first takes one of a few slots, which Web
 * Locks share between tabs and free when a tab dies; without a slot the page polls. Hidden tabs
 * hold no slot.
 */
const SLOTS = 4;
const REOPEN_MS_MIN = 1_000;
const REOPEN_MS_MAX = 30_000;
/** How long a fresh stream may stay silent before we fetch what it may have missed. */
const FIRST_EVENT_MS_MAX = 1_500;
/** The server sends `alive` at once: after this a proxy keeps the events, and we poll. */
const SILENT_MS_AT_FIRST = 8_000;
/** It sends `alive` again every 15 s. */
const SILENT_MS_MAX = 40_000;
/** How long we poll before a stream is tried again. */
const RETRY_MS = 300_000;

/**
 * Follow a stream.
 * @param {string} path such as `/api/items/1/events`
 * @param {{events: Record<string, (data: any) => void>, poll: () => unknown, pollMs: number, onStatus?: (fresh: boolean) => void}} options
 *   `events`: handler by event name; `poll`: fetches the present state, called whenever something
 *   may have been missed, must not throw; `onStatus`: told when the connection is lost and found
 * @returns {{close: () => void}}
 */
export function follow(path, { events, poll, pollMs, onStatus = () => {} }) {
  let source = null;
  let releaseSlot = null;
  let timer = 0;
  let reopenMs = REOPEN_MS_MIN;
  let silence = 0;
  let retryAtMs = 0;
  let opening = false;
  let closed = false;

  async function open() {
    if (closed || opening || source !== null || document.hidden) return;
    if (performance.now() < retryAtMs) {
      pollLater(pollMs);
      return;
    }
    opening = true;
    const release = await takeSlot();
    opening = false;
    if (closed || document.hidden) {
      release?.();
      return;
    }
    if (release === null) {
      pollLater(pollMs);
      return;
    }
    releaseSlot = release;
    connect();
  }

  function connect() {
    let opened = false;
    source = new EventSource(path);
    listen(SILENT_MS_AT_FIRST);
    // A proxy may keep the head of the answer, too.
    timer = setTimeout(poll, FIRST_EVENT_MS_MAX);
    source.addEventListener('alive', () => listen(SILENT_MS_MAX));
    source.addEventListener('open', () => {
      reopenMs = REOPEN_MS_MIN;
      onStatus(true);
      listen(SILENT_MS_AT_FIRST);
      // A second opening of the same source is the browser's own reconnection.
      if (opened) poll();
      opened = true;
      clearTimeout(timer);
      timer = setTimeout(poll, FIRST_EVENT_MS_MAX);
    });
    source.addEventListener('error', () => {
      if (source === null) return;
      clearTimeout(silence);
      onStatus(false);
      // CONNECTING: the browser reconnects by itself. CLOSED: the server refused; that is ours.
      if (source.readyState !== EventSource.CLOSED) return;
      stop();
      reopenMs = Math.min(REOPEN_MS_MAX, reopenMs * 2);
      pollLater(Math.max(pollMs, reopenMs / 2 + Math.random() * (reopenMs / 2)));
    });
    for (const [name, handle] of Object.entries(events)) {
      source.addEventListener(name, (event) => {
        clearTimeout(timer);
        listen(SILENT_MS_MAX);
        handle(JSON.parse(event.data));
      });
    }
  }

  /** Gives the stream up if nothing comes on it. */
  function listen(ms) {
    clearTimeout(silence);
    silence = setTimeout(() => {
      retryAtMs = performance.now() + RETRY_MS;
      stop();
      pollLater(0);
    }, ms);
  }

  function pollLater(delayMs) {
    clearTimeout(timer);
    timer = setTimeout(async () => {
      await poll();
      open();
    }, delayMs);
  }

  function stop() {
    clearTimeout(timer);
    clearTimeout(silence);
    source?.close();
    source = null;
    releaseSlot?.();
    releaseSlot = null;
  }

  function onVisibility() {
    if (document.hidden) {
      stop();
    } else {
      poll();
      open();
    }
  }

  // A page in the back-forward cache must not keep a connection; it comes back through pageshow.
  const onShow = (event) => event.persisted && onVisibility();
  document.addEventListener('visibilitychange', onVisibility);
  addEventListener('pagehide', stop);
  addEventListener('pageshow', onShow);
  open();

  return {
    close() {
      closed = true;
      stop();
      document.removeEventListener('visibilitychange', onVisibility);
      removeEventListener('pagehide', stop);
      removeEventListener('pageshow', onShow);
    },
  };
}

let slotsOfThisPage = 0;

/** @returns {Promise<(() => void) | null>} how to give the slot back, or null when all are taken */
async function takeSlot() {
  if (!('locks' in navigator)) {
    // Plain http from another machine: no Web Locks, so be modest on our own.
    if (slotsOfThisPage >= 2) return null;
    slotsOfThisPage += 1;
    return once(() => (slotsOfThisPage -= 1));
  }
  for (let slot = 0; slot < SLOTS; slot += 1) {
    const release = await new Promise((resolve) => {
      navigator.locks
        .request(`seckill.stream.${slot}`, { ifAvailable: true }, (lock) => {
          if (lock === null) return resolve(null);
          return new Promise((free) => resolve(once(free)));
        })
        .catch(() => resolve(null));
    });
    if (release !== null) return release;
  }
  return null;
}

function once(action) {
  let done = false;
  return () => {
    if (!done) action();
    done = true;
  };
}
