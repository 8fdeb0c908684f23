/**
 * The account of whoever is signed in: change the password, sign out everywhere.
 */
import { put, remove } from '../api.js';
import { byId, setText } from '../dom.js';
import { setError, startFields } from '../form.js';
import { startFrame } from '../frame.js';
import { currentSession, forgetSession, keepToBuyer, rememberSession, signInAddress } from '../session.js';
import { explain, text } from '../strings.js';

/** The field beside which a refusal is shown. */
const FIELDS = { invalid_credentials: 'current', invalid_password: 'new', common_password: 'new' };

let busy = false;
let asked = false;

startFrame('title.account');
keepToBuyer();
const session = currentSession();
if (session === null) {
  location.replace(signInAddress());
} else {
  // For the browser's store of passwords, which needs the name beside the new password.
  byId('username').value = session.username;
  setText(byId('signed-in'), text('nav.signedInAs', { name: session.username }));
  byId('form').addEventListener('submit', submit);
  byId('everywhere').addEventListener('click', signOutEverywhere);
  byId('keep').addEventListener('click', () => ask(false));
  startFields(['current', 'new'], ['current', 'new']);
}

async function submit(event) {
  event.preventDefault();
  if (busy) return;
  const current = byId('current').value;
  const wanted = byId('new').value;
  setError('form', '');
  setText(byId('done'), '');
  if (current === '') return setError('current', text('sign.passwordMissing'), true);
  if (wanted === '') return setError('new', text('account.newMissing'), true);
  setBusy(true);
  try {
    const answer = await put('/api/session/password', { current_password: current, new_password: wanted });
    rememberSession({ username: session.username, ...answer });
    byId('form').reset();
    byId('username').value = session.username;
    setText(byId('done'), text('account.done'));
  } catch (error) {
    if (error.status === undefined) throw error;
    showRefusal(error);
  } finally {
    setBusy(false);
  }
}

function showRefusal(error) {
  const { title, detail } = explain(error.code);
  if (error.code === 'invalid_credentials') return setError('current', text('account.wrong'), true);
  if (error.code in FIELDS) return setError(FIELDS[error.code], title, true);
  if (error.status === 401) return location.replace(signInAddress());
  // Without an answer the password may have changed: say which one to try.
  if (error.changed === 'unknown') return setError('form', text('account.unknown'));
  setError('form', `${title}. ${error.detail || detail}`);
}

/** The first press asks, the second one does it. */
async function signOutEverywhere() {
  if (busy) return;
  if (!asked) return ask(true);
  setBusy(true);
  setText(byId('everywhere-error'), '');
  try {
    await remove('/api/sessions');
  } catch (error) {
    if (error.status === undefined) throw error;
    // 401 means that the sessions had ended already.
    if (error.status !== 401) {
      setBusy(false);
      return setText(byId('everywhere-error'), text('account.notEnded'));
    }
  }
  forgetSession();
  location.replace('/signin.html');
}

function ask(wanted) {
  asked = wanted;
  setText(byId('everywhere'), text(asked ? 'account.everywhereSure' : 'account.everywhere'));
  byId('keep').hidden = !asked;
  byId('everywhere').focus();
}

function setBusy(now) {
  busy = now;
  byId('submit').setAttribute('aria-disabled', String(busy));
  byId('everywhere').setAttribute('aria-disabled', String(busy));
  setText(byId('submit'), text(busy ? 'sign.busy' : 'account.submit'));
}
