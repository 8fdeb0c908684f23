/**
 * Groups of items that share a limit: the choices of both forms, and the form for a new group.
 */
import { get, post } from '../api.js';
import { choose, fillChoice, noteSent, reason, showResult } from '../desk.js';
import { byId, setText } from '../dom.js';
import { count } from '../format.js';
import { text } from '../strings.js';

let groups = [];

/** Wire the form once, and fill the choices. */
export async function startGroups() {
  byId('group-form').addEventListener('submit', async (event) => {
    event.preventDefault();
    const result = byId('group-result');
    setText(result, '');
    try {
      const emptySent = noteSent(['group-name']);
      const body = { name: byId('group-name').value, per_buyer_limit: Math.trunc(Number(byId('group-limit').value)) };
      groups.push(await post('/api/admin/limit-groups', body));
      showResult(result, text('group.created', { name: body.name }));
      emptySent();
      draw();
    } catch (error) {
      showResult(result, reason(error), 'bad');
    }
  });
  ({ groups } = await get('/api/admin/limit-groups'));
  draw();
}

function draw() {
  const entries = [noGroup(), ...groups.map(entryOf)];
  for (const id of ['edit-group', 'new-group']) fillChoice(byId(id), entries);
}

function noGroup() {
  return { value: '0', words: text('edit.noGroup') };
}

function entryOf({ id, name, per_buyer_limit }) {
  return { value: String(id), words: text('edit.groupEntry', { name, limit: count(per_buyer_limit) }) };
}

/** Choose the group of an item in the form. @param {object} item */
export function showGroup({ limit_group: group }) {
  choose(byId('edit-group'), group ? entryOf(group) : noGroup());
}
