//! Load tools of others, which `loadtest/tools/fire` starts, end with the verdict of the audit.

use std::env;
use std::os::unix::fs::symlink;

use super::program::{PROGRAM, beside};
use crate::house::docs::root;
use crate::support::prelude::*;

/// Fires for three seconds with a tool of this path at a strategy, with the arbiter `on` or `off`.
async fn fire(shop: &Shop, instance: &Instance, path: &str, tool: [&str; 3]) -> (i32, String) {
    let mut fire = beside(shop, root().join("loadtest/tools/fire"));
    fire.args(tool).arg("3").env("PATH", path).env("SECKILL", PROGRAM);
    fire.env("SECKILL_URL", format!("http://{}", instance.addr));
    told(&fire.output().await.expect("it runs"))
}

/// A load that sold right ends with 0, one that oversold with 1, and one that sold nothing with 2. k6 is started where it
/// is installed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_load_ends_with_the_audit() {
    let (shop, instance) = Shop::open().await;
    let path = env::var("PATH").expect("a path");
    // With a tool that sends nothing.
    let folder = TestFolder::new("tools");
    symlink("/bin/true", folder.join("wrk")).expect("a link");
    let idle = format!("{}:{path}", folder.display());
    let mut fires = vec![
        (&path, ["wrk", "mysql-batch", "on"], 0, "clean, 0 units oversold"),
        (&path, ["wrk", "mysql-naive", "off"], 1, "I1    BROKEN"),
        (&idle, ["wrk", "mysql-batch", "on"], 2, "nothing was sold"),
        (&path, ["wrk", "no-strategy", "on"], 2, "no item"),
    ];
    if env::split_paths(&path).any(|folder| folder.join("k6").exists()) {
        fires.push((&path, ["k6", "mysql-batch", "on"], 0, "clean, 0 units oversold"));
        fires.push((&path, ["k6", "mysql-naive", "off"], 1, "I1    BROKEN"));
    }
    let fired = fires.iter().map(|(path, tool, _, _)| fire(&shop, &instance, path, *tool));
    let ended = join_all(fired).await;
    for ((_, tool, code, sentence), (ended, text)) in fires.iter().zip(ended) {
        assert!(ended == *code && text.contains(sentence), "{tool:?}: {ended}: {text}");
    }
}
