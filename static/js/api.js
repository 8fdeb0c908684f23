/**
 * Talking to the server: JSON in and out, problem details as errors, the clock and the session
 * kept right on the way.
 */
import { observe } from './clock.js';
import { currentSession, forgetSession } from './session.js';

const TIMEOUT_MS = 12_000;

/**
 * An answer that is not a success, or no answer at all.
 * `code` is the contract's code, `network` when nothing came, `internal_error` when the body said
 * nothing. `changed` tells whether something may have changed: `none` or `unknown`.
 */
export class ApiError extends Error {
  /** @param {{status: number, code: string, changed: string, retryable: boolean, retryAfterMs: number|null, challenge: object|null, itemId?: number|null, detail: string, faults?: object[]}} fields */
  constructor(fields) {
    super(`${fields.status} ${fields.code}`);
    Object.assign(this, fields);
  }
}

/**
 * @param {string} path such as `/api/items`
 * @returns {Promise<any>} the body
 * @throws {ApiError}
 */
export function get(path) {
  return request('GET', path);
}

/**
 * @param {string} path
 * @param {object} [body] sent as JSON
 * @param {Record<string, string>} [headers]
 * @returns {Promise<any>} the body
 * @throws {ApiError}
 */
export function post(path, body = {}, headers = {}) {
  return request('POST', path, body, headers);
}

/**
 * @param {string} path
 * @param {object} body what to change
 * @returns {Promise<any>} the body
 * @throws {ApiError}
 */
export function patch(path, body) {
  return request('PATCH', path, body);
}

/**
 * @param {string} path
 * @param {object} body what replaces the present state
 * @returns {Promise<any>} the body
 * @throws {ApiError}
 */
export function put(path, body) {
  return request('PUT', path, body);
}

/**
 * Send the bytes of a file.
 * @param {string} path
 * @param {string} kind media type
 * @param {Blob} content
 * @param {Record<string, string>} [headers]
 * @returns {Promise<any>} the body
 * @throws {ApiError}
 */
export function postFile(path, kind, content, headers = {}) {
  return request('POST', path, content, { 'Content-Type': kind, ...headers });
}

/** @param {string} path @returns {Promise<any>} @throws {ApiError} */
export function remove(path) {
  return request('DELETE', path);
}

async function request(method, path, body, headers = {}) {
  const sentAtMs = performance.now();
  const sentBy = currentSession()?.user_id;
  let response;
  let answer = null;
  try {
    response = await fetch(path, {
      method,
      headers: { Accept: 'application/json', ...(body && { 'Content-Type': 'application/json' }), ...headers },
      body: body instanceof Blob ? body : body && JSON.stringify(body),
      cache: 'no-store',
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    const receivedAtMs = performance.now();
    answer = parse(await response.text());
    // The page of a network that wants a sign-in first is no answer of the shop.
    if (response.ok && answer === null && response.status !== 204) throw new TypeError('no answer of the shop');
    if (answer?.server_time) observe(answer.server_time, sentAtMs, receivedAtMs);
  } catch {
    throw new ApiError({
      status: 0,
      code: 'network',
      changed: method === 'GET' ? 'none' : 'unknown',
      retryable: true,
      retryAfterMs: null,
      challenge: null,
      detail: '',
    });
  }
  if (response.ok) return answer;
  // A wrong password is a 401 too, but says nothing about the session there is; nor does the answer to another buyer.
  const isOurs = answer?.code !== 'invalid_credentials' && currentSession()?.user_id === sentBy;
  if (response.status === 401 && isOurs) forgetSession();
  throw problem(response, answer);
}

function problem(response, body) {
  const broken = response.status >= 500;
  return new ApiError({
    status: response.status,
    code: body?.code ?? (broken ? 'internal_error' : 'other'),
    // A proxy's 502 or 504 says nothing about what happened behind it.
    changed: body?.outcome ?? (broken ? 'unknown' : 'none'),
    retryable: body?.retryable ?? broken,
    retryAfterMs: retryAfterMs(response.headers.get('Retry-After')),
    challenge: body?.challenge ?? null,
    itemId: body?.item_id ?? null,
    detail: body?.detail ?? '',
    faults: body?.faults ?? [],
  });
}

function retryAfterMs(header) {
  const seconds = Number.parseFloat(header ?? '');
  return Number.isFinite(seconds) && seconds >= 0 ? seconds * 1000 : null;
}

function parse(written) {
  try {
    return JSON.parse(written);
  } catch {
    return null;
  }
}
