/**
 * Groups of items that share a limit: the choices of both forms, and the form for a new group.
 */
import { get, post } from '../api.js';
import { changeOnce, choose, fillChoice, noteSent, showBusy, showResult } from '../desk.js';
import { byId } from '../dom.js';
import { count } from '../format.js';
import { text } from '../strings.js';

let groups = [];

/** Wire the form once, and fill the choices. */
export async function startGroups() {
  byId('group-form').addEventListener('submit', (event) => {
    event.preventDefault();
    create();
  });
  await read();
}

async function read() {
  ({ groups } = await get('/api/admin/limit-groups'));
  draw();
}

/** A second press creates nothing: the field is empty by then. */
function create() {
  if (byId('group-name').value.trim() === '') return byId('group-name').focus();
  const emptySent = noteSent(['group-name']);
  const body = { name: byId('group-name').value, per_buyer_limit: Math.trunc(Number(byId('group-limit').value)) };
  const say = (words, tone) => showResult(byId('group-result'), words, tone);
  changeOnce('group', {
    send: () => post('/api/admin/limit-groups', body),
    done: (created) => {
      groups.push(created);
      say(text('group.created', { name: body.name }));
      emptySent();
      draw();
    },
    read,
    draw: (isBusy) => showBusy(byId('group-form'), isBusy),
    say,
  });
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
