/**
 * Sign in, or create an account and be signed in; then back to where the buyer came from.
 */
import { post } from '../api.js';
import { byId, setText } from '../dom.js';
import { startFrame } from '../frame.js';
import { currentSession, rememberSession, safeReturnAddress } from '../session.js';
import { explain, text } from '../strings.js';

const query = new URLSearchParams(location.search);
const back = safeReturnAddress(query.get('return'));
let mode = query.get('mode') === 'up' ? 'up' : 'in';
let busy = false;

startFrame('title.signIn');
if (currentSession() !== null) location.replace(back);
byId('back').hidden = back === new URL('/', location.origin).href;
byId('mode-in').addEventListener('change', () => setMode('in'));
byId('mode-up').addEventListener('change', () => setMode('up'));
byId(`mode-${mode}`).checked = true;
byId('form').addEventListener('submit', submit);
byId('reveal').addEventListener('click', reveal);
for (const id of ['username', 'password']) byId(id).addEventListener('input', () => setError(id, ''));
setMode(mode);

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
  try {
    if (mode === 'up') await signUp(username, password);
    const session = await post('/api/session', { username, password });
    rememberSession({ username, ...session });
    location.replace(back);
  } catch (error) {
    if (error.status === undefined) throw error;
    showRefusal(error);
  } finally {
    busy = false;
    drawSubmit();
  }
}

async function signUp(username, password) {
  try {
    await post('/api/users', { username, password });
  } catch (error) {
    // The answer to an earlier try may have been lost: then signing in with it is what is left to do.
    if (error.code !== 'network') throw error;
    await post('/api/users', { username, password }).catch((again) => {
      if (again.code !== 'username_taken') throw again;
    });
  }
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

/** Say what is wrong beside the field, and put the cursor there. */
function setError(id, sentence, focus = false) {
  setText(byId(`${id}-error`), sentence);
  if (id === 'form') return;
  byId(id).setAttribute('aria-invalid', String(sentence !== ''));
  if (focus) byId(id).focus();
}

function reveal() {
  const field = byId('password');
  const shown = field.type === 'text';
  field.type = shown ? 'password' : 'text';
  byId('reveal').setAttribute('aria-pressed', String(!shown));
  setText(byId('reveal'), text(shown ? 'sign.show' : 'sign.hide'));
}
