/**
 * Groups of items that share a limit: the choices of both forms, and the form for a new group.
 */
import { get, post } from '../api.js';
import { reason, showResult } from '../desk.js';
import { byId, el, setText } from '../dom.js';
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
      const body = { name: byId('group-name').value, per_buyer_limit: Math.trunc(Number(byId('group-limit').value)) };
      groups.push(await post('/api/admin/limit-groups', body));
      showResult(result, text('group.created', { name: body.name }));
      byId('group-name').value = '';
      draw();
    } catch (error) {
      showResult(result, reason(error), 'bad');
    }
  });
  ({ groups } = await get('/api/admin/limit-groups'));
  draw();
}

function draw() {
  for (const id of ['edit-group', 'new-group']) {
    const chosen = byId(id).value;
    const entries = groups.map(({ id: group, name, per_buyer_limit }) =>
      el('option', { value: group, text: text('edit.groupEntry', { name, limit: count(per_buyer_limit) }) }),
    );
    byId(id).replaceChildren(el('option', { value: '0', text: text('edit.noGroup') }), ...entries);
    byId(id).value = chosen === '' ? '0' : chosen;
  }
}

/** Choose the group of an item in the form. @param {object} item */
export function showGroup(item) {
  byId('edit-group').value = String(item.limit_group?.id ?? 0);
}
