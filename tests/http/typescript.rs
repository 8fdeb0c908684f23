//! The TypeScript client: its types are those of the API, and its example sells in a page of another
//! shop.

use std::process::Command;
use std::sync::OnceLock;

use crate::support::prelude::*;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/typescript")
}

/// Builds the client and its example, once, by the API of this program; `None`, with a word why, when the packages
/// are not installed.
pub fn build() -> Option<PathBuf> {
    static BUILT: OnceLock<Option<PathBuf>> = OnceLock::new();
    let built = BUILT.get_or_init(|| {
        let is_installed = root().join("node_modules/.bin/openapi-typescript").exists();
        let is_usable = is_installed && Command::new("npm").arg("--version").output().is_ok();
        if !is_usable {
            println!("left out: run npm ci in clients/typescript to check the TypeScript client");
            return None;
        }
        let mut npm = Command::new("npm");
        npm.args(["run", "build"]).env("SECKILL", env!("CARGO_BIN_EXE_seckill"));
        let output = npm.current_dir(root()).output().expect("npm runs");
        let said = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
        Some(root())
    });
    built.clone()
}

/// Runs a program of node with the address of the shop, a token of buyer 1 and an item.
async fn assert_prints(
    folder: &Path,
    program: &str,
    instance: &Instance,
    item: i64,
    expected: &str,
) {
    let url = format!("http://{}", instance.addr);
    let token = instance.token(1, Role::Buyer);
    let mut node = tokio::process::Command::new("node");
    node.args(["--input-type=module", "--eval", program, &url, &token]).arg(item.to_string());
    let output = node.current_dir(folder).output().await.expect("it runs");
    let [printed, said] =
        [output.stdout, output.stderr].map(|it| String::from_utf8_lossy(&it).into_owned());
    assert_eq!(printed, expected, "{said}");
}

/// Calls each function that makes or changes an order, with and without what may be left out.
const PROGRAM: &str = "
import { buy, createClient, extend, giveBack, reserve } from './dist/src/index.js';
const [baseUrl, token, item] = process.argv.slice(1);
const [client, itemId] = [createClient({ baseUrl, token }), Number(item)];
const all = await reserve(client, { lines: [{ itemId, quantity: 2 }] });
const short = await reserve(client, { lines: [{ itemId }], holdSeconds: 30 });
const longer = await extend(client, all.id);
await extend(client, short.id, 5);
const bought = await buy(client, { itemId });
const refused = await giveBack(client, bought.id).catch((error) => error);
const { problem, isSettled } = refused;
console.log([all.quantity, short.quantity, longer.id === all.id, problem.code, isSettled].join(' '));
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_client_reserves_extends_and_buys() {
    let Some(folder) = build() else { return };
    let (_shop, instance, item) =
        Shop::selling(json!({ "per_buyer_limit": 9, "extend_seconds": 60 })).await;
    assert_prints(&folder, PROGRAM, &instance, item, "2 1 true order_state_conflict true\n").await;
    assert_clean(&instance, item).await;
}

/// Buys behind a proxy that answers with pages of its own: the order is made although its answer is lost. Then a page that
/// refuses, which no try follows; and a refusal that says nothing about an earlier request with the key.
const BEHIND_A_PROXY: &str = "
import { buy, createClient, signIn } from './dist/src/index.js';
const [baseUrl, token, item] = process.argv.slice(1);
const keys = [];
const page = (status, body) => new Response(body, { status, headers: { 'Content-Type': 'text/html' } });
const answers = [
  async (request) => { await fetch(request); return page(504, '<html>Gateway Time-out</html>'); },
  async () => new Response(null, { status: 503 }),
  async () => new Response('{\"message\": \"bad gateway\"}', { status: 502 }),
  fetch,
  async () => page(403, '<html>Forbidden</html>'),
  async () => page(502, '<html>Bad Gateway</html>'),
  async () => Response.json({ code: 'token_expired', retryable: false, status: 401, outcome: 'none' }, { status: 401 }),
];
const client = createClient({ baseUrl, token, fetch: (request) => {
  keys.push(request.headers.get('Idempotency-Key'));
  return answers.shift()(request);
} });
const order = await buy(client, { itemId: Number(item) });
console.log(order.quantity, keys.length, new Set(keys).size);
for (const send of [() => buy(client, { itemId: Number(item) }), () => signIn(client, 'x')]) {
  const error = await send().catch((error) => error);
  console.log(error.name, error.problem);
}
const signedOut = await buy(client, { itemId: Number(item) }).catch((error) => error);
console.log(signedOut.problem.code, signedOut.isSettled);
console.log(keys.length);
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_client_buys_once_behind_a_proxy_with_pages_of_its_own() {
    let Some(folder) = build() else { return };
    let (_shop, instance, item) = Shop::selling(json!({ "per_buyer_limit": 9, "stock": 9 })).await;
    let printed = "1 4 1\nSeckillError undefined\nSeckillError undefined\ntoken_expired false\n7\n";
    assert_prints(&folder, BEHIND_A_PROXY, &instance, item, printed).await;
    let orders = instance.buyer(1).get("/api/orders").await;
    assert_eq!(orders.json["orders"].as_array().map(Vec::len), Some(1), "{}", orders.text);
    assert_clean(&instance, item).await;
}

#[test]
fn the_lock_file_names_no_registry() {
    let lock = std::fs::read_to_string(root().join("package-lock.json")).expect("a lock file");
    assert!(!lock.contains("\"resolved\""), "see .npmrc");
}
