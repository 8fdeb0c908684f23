/**
 * Who is signed in, as far as the page needs to know.
 *
 * The session itself is an HttpOnly cookie that no script can read. Kept here is only what the
 * header shows and what separates two buyers on one computer; losing it costs a sign-in.
 */
import { onForeignChange, readEntry, removeEntry, writeEntry } from './storage.js';

const ENTRY = 'seckill.session';
const listeners = new Set();

/**
 * @typedef {{username: string, user_id: number, role: 'buyer'|'operator'|'admin', expires_at: string}} Session
 */

/** The session, or null when signed out. @returns {Session | null} */
export function currentSession() {
  const session = readEntry(ENTRY);
  return typeof session?.user_id === 'number' ? session : null;
}

/** Whether the session is past its end by the clock of this computer, which may be wrong: only the service knows. */
export function seemsOver() {
  const session = currentSession();
  return session !== null && Date.parse(session.expires_at) <= Date.now();
}

/** Whether an operator is signed in, as far as the page knows; the server has the last word. */
export function isOperator() {
  return ['operator', 'admin'].includes(currentSession()?.role);
}

/** Remember who signed in. @param {Session} session */
export function rememberSession({ username, user_id, role, expires_at }) {
  writeEntry(ENTRY, { username, user_id, role, expires_at });
  tell();
}

/** Forget it: signed out, or the server said 401. */
export function forgetSession() {
  removeEntry(ENTRY);
  tell();
}

/** Be told when it changes, in this tab or another. @param {() => void} listener */
export function onSessionChange(listener) {
  listeners.add(listener);
}

/** Load the page anew when another buyer, or nobody, is signed in, also by another tab: what it shows is one buyer's. */
export function keepToBuyer() {
  const buyer = currentSession()?.user_id;
  onSessionChange(() => currentSession()?.user_id !== buyer && location.reload());
}

/** The address of the sign-in page that leads back here. @param {string} [hash] such as `#buy` */
export function signInAddress(hash = location.hash) {
  return `/signin.html?return=${encodeURIComponent(location.pathname + location.search + hash)}`;
}

/**
 * Where to go after signing in. Only an address of this shop is taken: anything else would make
 * the sign-in page a springboard to a stranger's site.
 * @param {string | null} wanted the `return` parameter
 * @returns {string} an absolute address of this origin
 */
export function safeReturnAddress(wanted) {
  const home = new URL('/', location.origin).href;
  if (wanted === null || !wanted.startsWith('/')) return home;
  try {
    const address = new URL(wanted, location.origin);
    const leadsBackHere = address.pathname.startsWith('/signin');
    return address.origin === location.origin && !leadsBackHere ? address.href : home;
  } catch {
    return home;
  }
}

function tell() {
  for (const listener of listeners) listener();
}

onForeignChange(ENTRY, tell);
