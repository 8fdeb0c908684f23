/**
 * A page of another shop that sells one item by Seckill: `?item=1`.
 *
 * The shop knows its buyer already. Its back office makes a token of this buyer (`/identity-token`),
 * and the page exchanges it for a session of Seckill. No cookie takes part: browsers would not send
 * one to another site.
 */
import { buy, createClient, SeckillError, signIn } from '../src/index.js';

/** Where Seckill is. A constant: the token of the buyer goes there, so no link may choose it. */
const SECKILL_URL = 'http://127.0.0.1:8080';
const STOCK_PERIOD_MS = 2_000;
/** The key of a purchase whose outcome is not known yet survives a reload of the page. */
const KEY = 'purchase-key';

const itemId = Number(new URLSearchParams(location.search).get('item') ?? '1');
let token: string | undefined;
const client = createClient({ baseUrl: SECKILL_URL, token: () => token });

function show(id: string, text: string): void {
  const element = document.getElementById(id);
  if (element !== null && element.textContent !== text) element.textContent = text;
}

/** Minor units of a currency as people read them. */
function money(amount: number, currency: string): string {
  const format = new Intl.NumberFormat('en', { style: 'currency', currency });
  return format.format(amount / 10 ** (format.resolvedOptions().maximumFractionDigits ?? 2));
}

async function refresh(): Promise<void> {
  const { data } = await client.GET('/api/items/{id}', { params: { path: { id: itemId } } });
  if (data === undefined) return;
  show('name', data.name);
  show('description', data.description);
  show('price', money(data.price_cents, data.currency));
  show('stock', `${data.available} of ${data.total} left`);
  const button = document.getElementById('buy') as HTMLButtonElement;
  button.disabled = data.state !== 'open';
}

/** The token that our own back office makes for the buyer who is signed in here. */
async function identityToken(): Promise<string> {
  const answer = await fetch('/identity-token', { method: 'POST' });
  if (!answer.ok) throw new Error(`our back office answered ${answer.status}`);
  return answer.text();
}

async function press(): Promise<void> {
  const key = sessionStorage.getItem(KEY) ?? crypto.randomUUID();
  sessionStorage.setItem(KEY, key);
  show('outcome', 'One moment…');
  try {
    token ??= (await signIn(client, await identityToken())).token;
    const order = await buy(client, { itemId, key });
    sessionStorage.removeItem(KEY);
    show('outcome', `It is yours: order ${order.id}, ${order.status}.`);
  } catch (error) {
    if (!(error instanceof SeckillError)) throw error;
    if (error.problem?.status === 401) token = undefined;
    // A refusal to sign in says nothing about the purchase.
    if (token !== undefined && error.isSettled) sessionStorage.removeItem(KEY);
    show('outcome', error.problem?.title ?? 'No answer. Press again: you will not pay twice.');
  }
  await refresh();
}

document.getElementById('buy')?.addEventListener('click', () => void press());
await refresh();
setInterval(() => void refresh().catch(() => undefined), STOCK_PERIOD_MS);
