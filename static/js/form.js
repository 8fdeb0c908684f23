/**
 * What the forms with passwords share: the sentence beside a field, and the button that shows a password.
 */
import { byId, setText } from './dom.js';
import { text } from './strings.js';

/** Say what is wrong beside the field, and put the cursor there. @param {string} id of the field, or `form` */
export function setError(id, sentence, focus = false) {
  setText(byId(`${id}-error`), sentence);
  if (id === 'form') return;
  byId(id).setAttribute('aria-invalid', String(sentence !== ''));
  if (focus) byId(id).focus();
}

/** Wire the fields: typing in a field removes its error, and the button `#reveal` shows the passwords. */
export function startFields(ids, passwords) {
  for (const id of ids) byId(id).addEventListener('input', () => setError(id, ''));
  const button = byId('reveal');
  button.addEventListener('click', () => {
    const shown = byId(passwords[0]).type === 'text';
    for (const id of passwords) byId(id).type = shown ? 'password' : 'text';
    button.setAttribute('aria-pressed', String(!shown));
    setText(button, text(shown ? 'sign.show' : 'sign.hide'));
  });
}
