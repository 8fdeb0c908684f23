/**
 * A typed client of Seckill. The build generates `schema.ts` from the description of the API; this file adds
 * what a description cannot say: how to send a purchase again without buying twice.
 */
import createFetchClient, { type Client } from 'openapi-fetch';
import type { components, paths } from './schema.js';

export type { components, paths } from './schema.js';

/** A failure, as the API describes it (RFC 9457). */
export type Problem = components['schemas']['ProblemBody'];
/** An order. */
export type Order = components['schemas']['OrderBody'];
/** A session: its token is sent as `Authorization: Bearer`. */
export type Session = components['schemas']['SessionBody'];
/** The typed client: `client.GET('/api/items')` and so on. */
export type SeckillClient = Client<paths>;

/** Tries of one purchase. */
const TRIES_MAX = 8;
/** The longest pause between two tries, in milliseconds. */
const PAUSE_MS_MAX = 5_000;

/** The statuses of a refusal for which the service has looked for an order with the key. */
const LOOKED = [404, 409, 422];

/** How a client reaches the service. */
export interface Options {
  /** Such as `https://sale.example`. */
  baseUrl: string;
  /** The token of the session, or a function that has it. Without one only public data can be read. */
  token?: string | (() => string | undefined);
  /** Another `fetch`, for tests. */
  fetch?: typeof globalThis.fetch;
}

/** A failure with its problem; `problem` is undefined when none came, as with a page of a proxy. */
export class SeckillError extends Error {
  readonly problem: Problem | undefined;

  constructor(problem: Problem | undefined) {
    super(problem === undefined ? 'no answer of the service' : `${problem.status} ${problem.code}: ${problem.detail}`);
    this.name = 'SeckillError';
    this.problem = problem;
  }

  /** Whether the request has made no order, also earlier. Until then keep its key: a new one may buy twice. */
  get isSettled(): boolean {
    return this.problem?.outcome === 'none' && LOOKED.includes(this.problem.status);
  }
}

/** Makes a client. Cookies are never sent: a page of another site has to use tokens. */
export function createClient({ baseUrl, token, fetch }: Options): SeckillClient {
  const client = createFetchClient<paths>({ baseUrl, credentials: 'omit', ...(fetch && { fetch }) });
  client.use({
    onRequest({ request }) {
      const present = typeof token === 'function' ? token() : token;
      if (present !== undefined) request.headers.set('Authorization', `Bearer ${present}`);
      return request;
    },
  });
  return client;
}

/**
 * Exchanges a token of the identity provider for a session.
 * @throws {SeckillError}
 */
export async function signIn(client: SeckillClient, identityToken: string): Promise<Session> {
  const { data, error } = await client.POST('/api/session', { body: { token: identityToken } });
  if (data === undefined) throw new SeckillError(problemOf(error));
  return data;
}

/** What is bought. */
export interface Purchase {
  itemId: number;
  quantity?: number;
  /** The key of the purchase: the same key never buys twice. Keep it until the outcome is known. */
  key?: string;
  /** The strategy; that of the item if it is left out. */
  strategy?: string;
}

/**
 * Buys, and sends the same request again, with the same key, for as long as its outcome is not known.
 * @throws {SeckillError} with the reason: `sold_out`, `limit_reached`, and so on
 */
export async function buy(client: SeckillClient, purchase: Purchase): Promise<Order> {
  const { itemId, quantity = 1, key = crypto.randomUUID(), strategy = 'default' } = purchase;
  return untilKnown(() =>
    client.POST('/api/seckill/{strategy}/{item_id}', {
      params: { path: { strategy, item_id: itemId }, header: { 'Idempotency-Key': key } },
      body: { quantity },
    }),
  );
}

/** What is reserved: all lines or none. */
export interface Reservation {
  lines: { itemId: number; quantity?: number; ticket?: string }[];
  /** How long the unpaid order keeps its units; at most as long as each of its items allows. */
  holdSeconds?: number;
  /** The key of the reservation: the same key never buys twice. Keep it until the outcome is known. */
  key?: string;
}

/**
 * Reserves units of several items, all or none, and sends the same request again as `buy` does.
 * @throws {SeckillError} with the reason; `problem.item_id` names the line that was refused
 */
export async function reserve(client: SeckillClient, reservation: Reservation): Promise<Order> {
  const { lines, holdSeconds, key = crypto.randomUUID() } = reservation;
  return untilKnown(() =>
    client.POST('/api/reservations', {
      params: { header: { 'Idempotency-Key': key } },
      body: {
        lines: lines.map(({ itemId, ...line }) => ({ item_id: itemId, ...line })),
        ...(holdSeconds !== undefined && { hold_seconds: holdSeconds }),
      },
    }),
  );
}

/**
 * Extends the hold of an unpaid order, once: by `seconds`, or by as many as its items allow. Safe to repeat.
 * @throws {SeckillError} `hold_not_extendable`, `hold_over`, and so on
 */
export async function extend(client: SeckillClient, order: string, seconds?: number): Promise<Order> {
  return untilKnown(() =>
    client.POST('/api/orders/{id}/extension', {
      params: { path: { id: order } },
      body: seconds === undefined ? {} : { seconds },
    }),
  );
}

/**
 * Gives a paid order back, where its items allow it. Safe to repeat.
 * @throws {SeckillError} `order_not_returnable`, and so on
 */
export async function giveBack(client: SeckillClient, order: string): Promise<Order> {
  return untilKnown(() => client.POST('/api/orders/{id}/return', { params: { path: { id: order } } }));
}

/** Sends a request that may be repeated until its outcome is known. */
async function untilKnown(
  send: () => Promise<{ data?: Order; error?: unknown; response: Response }>,
): Promise<Order> {
  let last: Problem | undefined;
  for (let tries = 0; tries < TRIES_MAX; tries += 1) {
    if (tries > 0) await pause(retryAfterMs(tries));
    try {
      const { data, error, response } = await send();
      if (data !== undefined) return data;
      last = problemOf(error);
      // The page of a proxy says nothing about what happened behind it.
      if (!(last?.retryable ?? response.status >= 500)) throw new SeckillError(last);
    } catch (error) {
      if (error instanceof SeckillError) throw error;
      // No answer: it may have been bought, so the same key asks again.
      last = undefined;
    }
  }
  throw new SeckillError(last);
}

/** The problem in the body of a failure, if the service wrote it. */
function problemOf(body: unknown): Problem | undefined {
  const isProblem = typeof body === 'object' && body !== null && 'code' in body && 'retryable' in body;
  return isProblem ? (body as Problem) : undefined;
}

function retryAfterMs(tries: number): number {
  return Math.min(PAUSE_MS_MAX, 250 * 2 ** tries) * (0.5 + Math.random() / 2);
}

function pause(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}
