//! Copies the files that the crate includes, and plants a mistake in some of the copies. Each mistake is behind a switch
//! that only a test sets (`planted` in `src/threads.rs`), so the files of leaselock and of the ledger know nothing of it.
//!
//! A text that a mistake replaces has to stand in its file once: whoever changes that code finds the mistake here.

use std::path::{Path, PathBuf};
use std::{env, fs};

/// The modules of the ledger that have a mistake, as the crate declares them; leaselock is copied whole.
const MODULES: [(&str, &str); 4] = [
    ("ledger/src/work/item_concurrency.rs", "pub(crate) mod item_concurrency;"),
    ("ledger/src/write/group_commit/fair_queue.rs", "mod fair_queue;"),
    ("ledger/src/write/group_commit/pipeline.rs", "mod pipeline;"),
    ("ledger/src/write/group_commit/queue.rs", "mod queue;"),
];

/// A text of a file, and the text with the mistake.
struct Planted {
    file: &'static str,
    right: &'static str,
    wrong: &'static str,
}

const PLANTED: [Planted; 8] = [
    Planted {
        file: "leaselock/src/core/hold.rs",
        right: "if state.phase != Phase::Held {",
        wrong: r#"if state.phase != Phase::Held && !crate::threads::planted("a hold is lost after its end") {"#,
    },
    Planted {
        file: "leaselock/src/core/queue.rs",
        right: "Err(WakeReason::Head(mut returned)) => returned.queues = None,",
        wrong: r#"Err(WakeReason::Head(mut returned)) => {
            returned.queues = None;
            if crate::threads::planted("the head ends with a waiter that has left") {
                return;
            }
        }"#,
    },
    Planted {
        file: "leaselock/src/core/guard.rs",
        right: "state.hand_overs += 1;",
        wrong: r#"let is_counted_late = crate::threads::planted("a hand-over is counted when the next one holds");
            state.hand_overs += u32::from(!is_counted_late);"#,
    },
    Planted {
        file: "leaselock/src/core/guard.rs",
        right: "match call.send(WakeReason::Guard(next)) {\n                Ok(()) => {",
        wrong: "match call.send(WakeReason::Guard(next)) {\n                Ok(()) => {
                    self.hold.locked().hand_overs += u32::from(is_counted_late);",
    },
    Planted {
        file: "ledger/src/write/group_commit/queue.rs",
        right: "if !has_come && state.waiting.is_empty() {",
        wrong: r#"let has_ended = crate::threads::planted("a task ends without a last look");
            if !has_come && (has_ended || state.waiting.is_empty()) {"#,
    },
    Planted {
        file: "ledger/src/write/group_commit/pipeline.rs",
        right: "self.rows = None;\n            self.enter_rows(ROWS_MAX).await;",
        wrong: r#"let keeps_its_own = crate::threads::planted("a batch keeps its place while it waits for all");
            if !keeps_its_own {
                self.rows = None;
            }
            self.enter_rows(ROWS_MAX - u32::from(keeps_its_own)).await;"#,
    },
    Planted {
        file: "ledger/src/write/group_commit/fair_queue.rs",
        right: "let Some(entry) = queue.get_mut().pop_front()",
        wrong: r#"let Some(entry) = (if crate::threads::planted("the last order of an item is the first") {
                queue.get_mut().pop_back()
            } else {
                queue.get_mut().pop_front()
            })"#,
    },
    Planted {
        file: "ledger/src/work/item_concurrency.rs",
        right: "loop {\n            match self.try_all(items, awaited.take()) {",
        wrong: r#"if crate::threads::planted("an order waits for a permit with another one in hand") {
            let mut permits = ItemPermits::after(awaited.take());
            for item in items {
                permits.add(in_time(deadline, self.acquire(*item)).await??);
            }
            return Some(permits);
        }
        loop {
            match self.try_all(items, awaited.take()) {"#,
    },
];

fn main() {
    let crates = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("..");
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo sets it"));
    println!("cargo::rerun-if-changed=build.rs");
    copy(&crates, &out, Path::new("leaselock/src"));
    let leaselock = "#[allow(dead_code, unexpected_cfgs, unused_imports, reason = \"it has callers that this crate has not\")]
        mod leaselock;";
    declare(&out, "leaselock/src/lib.rs", "leaselock", leaselock);
    for (file, module) in MODULES {
        copy(&crates, &out, Path::new(file));
        let name = Path::new(file).file_stem().and_then(|name| name.to_str()).expect("a name");
        declare(&out, file, name, module);
    }
}

/// Copies a file or a folder, with the mistakes of its files.
fn copy(crates: &Path, out: &Path, name: &Path) {
    let from = crates.join(name);
    println!("cargo::rerun-if-changed={}", from.display());
    if from.is_dir() {
        fs::create_dir_all(out.join(name)).expect("the folder of the build can be written");
        for entry in fs::read_dir(&from).expect("a folder of the workspace") {
            copy(crates, out, &name.join(entry.expect("an entry").file_name()));
        }
        return;
    }
    let mut text = fs::read_to_string(&from).expect("a file of the workspace");
    for planted in PLANTED.iter().filter(|planted| Path::new(planted.file) == name) {
        let times = text.matches(planted.right).count();
        assert_eq!(times, 1, "{}: a mistake replaces this text: {}", planted.file, planted.right);
        text = text.replace(planted.right, planted.wrong);
    }
    let to = out.join(name);
    fs::create_dir_all(to.parent().expect("a folder")).expect("the folder can be written");
    fs::write(to, text).expect("the copy can be written");
}

/// Writes the declaration of a module whose file is a copy, for `include!`.
fn declare(out: &Path, file: &str, name: &str, module: &str) {
    let text = format!("#[path = {:?}]\n{module}\n", out.join(file));
    fs::write(out.join(format!("{name}.rs")), text).expect("the declaration can be written");
}
