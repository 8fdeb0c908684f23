/**
 * Sign in, or create an account and be signed in; then back to where the buyer came from. Where the
 * shop has an identity provider, a button leads there, and the provider leads back to this page.
 */
import { get, post } from '../api.js';
import { byId, setText } from '../dom.js';
import { setError, startFields } from '../form.js';
import { startFrame } from '../frame.js';
import { currentSession, rememberSession, safeReturnAddress } from '../session.js';
import { explain, text } from '../strings.js';

const query = new URLSearchParams(location.search);
const back = safeReturnAddress(query.get('return'));
// Chosen by the address, or by a click before this script was loaded.
let mode = query.get('mode') === 'up' || byId('mode-up').checked ? 'up' : 'in';
let busy = false;
/** The name of an account for which this page has asked without an answer: it may be there. */
let lostName = '';

startFrame('title.signIn');
if (query.get('done') === '1') take();
else if (currentSession() !== null) goOn();
byId('back').hidden = back === new URL('/', location.origin).href;
byId('mode-in').addEventListener('change', () => setMode('in'));
byId('mode-up').addEventListener('change', () => setMode('up'));
byId(`mode-${mode}`).checked = true;
byId('form').addEventListener('submit', submit);
startFields(['username', 'password'], ['password']);
setMode(mode);
showProblem(query.get('problem'));
showMethods();

/** Learn from the service whose session it is, and go on to where the buyer came from. */
async function learn() {
  const session = await get('/api/session');
  rememberSession({ ...session, username: session.username ?? '' });
  location.replace(back);
}

/**
 * This browser remembers a session. Its cookie may be gone, so the service says whether there still is one; a 401
 * makes the browser forget, and the form stays.
 */
async function goOn() {
  try {
    await learn();
  } catch (error) {
    if (error.status === undefined) throw error;
  }
}

/** Back from the provider with a session. */
async function take() {
  try {
    await learn();
  } catch (error) {
    if (error.status === undefined) throw error;
    showProblem(error.code === 'network' ? 'network' : 'sign_in_not_started');
  }
}

/** Show the ways to sign in that this shop has. */
async function showMethods() {
  let methods = { passwords: true, provider: null };
  try {
    methods = await get('/api/session/methods');
  } catch (error) {
    if (error.status === undefined) throw error;
  }
  const { passwords, provider } = methods;
  byId('form').hidden = !passwords;
  byId('provider').hidden = provider === null;
  byId('or').hidden = !passwords || provider === null;
  if (provider === null) return;
  const path = back.slice(location.origin.length);
  byId('provider-link').href = `${provider.start}?return=${encodeURIComponent(path)}`;
  setText(byId('provider-link'), text('sign.provider', { name: provider.name }));
}

/** Say why the provider's sign-in came to nothing. @param {string | null} code */
function showProblem(code) {
  byId('notice').hidden = code === null;
  if (code === null) return;
  const known = ['identity_refused', 'sign_in_not_started', 'token_expired', 'network'];
  setText(byId('notice'), code === 'network' ? text('sign.network') : explain(known.includes(code) ? code : 'identity_away').title);
}

function setMode(wanted) {
  mode = wanted;
  const signingUp = mode === 'up';
  setText(byId('heading'), text(signingUp ? 'sign.upHeading' : 'sign.inHeading'));
  byId('password').autocomplete = signingUp ? 'new-password' : 'current-password';
  setText(byId('password-hint'), signingUp ? text('sign.passwordHint') : '');
  for (const id of ['username', 'password', 'form']) setError(id, '');
  drawSubmit();
}

function drawSubmit() {
  const button = byId('submit');
  button.setAttribute('aria-disabled', String(busy));
  setText(button, text(busy ? 'sign.busy' : `sign.${mode}Submit`));
}

async function submit(event) {
  event.preventDefault();
  if (busy) return;
  const username = byId('username').value.trim();
  const password = byId('password').value;
  setError('form', '');
  if (username === '') return setError('username', text('sign.usernameMissing'), true);
  if (password === '') return setError('password', text('sign.passwordMissing'), true);
  busy = true;
  drawSubmit();
  let isMade = false;
  try {
    if (mode === 'up') {
      await signUp(username, password);
      isMade = true;
    }
    const session = await post('/api/session', { username, password });
    rememberSession({ username, ...session });
    location.replace(back);
  } catch (error) {
    if (error.status === undefined) throw error;
    // The account whose answer was lost is another person's.
    const isForeign = isMade && error.code === 'invalid_credentials';
    if (isMade && !isForeign) goOnToSignIn();
    showRefusal(isForeign ? { code: 'username_taken' } : error);
  } finally {
    busy = false;
    drawSubmit();
  }
}

async function signUp(username, password) {
  for (let tries = 1; ; tries += 1) {
    try {
      return await post('/api/users', { username, password });
    } catch (error) {
      // It may be the account whose answer was lost: then signing in is what is left to do.
      if (error.code === 'username_taken' && username === lostName) return null;
      if (error.changed !== 'unknown') throw error;
      lostName = username;
      if (tries > 1) throw error;
    }
  }
}

/** The account is there without a session: the next press signs in, since the name is taken now. */
function goOnToSignIn() {
  byId('mode-in').checked = true;
  setMode('in');
  byId('notice').hidden = false;
  setText(byId('notice'), text('sign.created'));
}

function showRefusal(error) {
  const fields = {
    username_taken: 'username',
    invalid_username: 'username',
    invalid_password: 'password',
    common_password: 'password',
    invalid_credentials: 'password',
  };
  const { title, detail } = explain(error.code);
  if (error.code in fields) return setError(fields[error.code], title, true);
  if (error.code === 'network') return setError('form', text('sign.network'), true);
  setError(
    'form',
    `${title}. ${error.code === 'too_many_attempts' || error.code === 'rate_limited' ? text('code.too_many_attempts.text') : error.detail || detail}`,
    true,
  );
}
