//! Copies the files that the crate includes, replaces those with SQL by those of `src/statements`, and plants a mistake in
//! some of the copies. Each mistake is behind a switch that only a test sets (`planted` in `src/threads.rs`), so the files of
//! leaselock, of the ledger and of the consumers know nothing of it.
//!
//! A text that a mistake replaces has to stand in its file once: whoever changes that code finds the mistake here.

use std::path::{Path, PathBuf};
use std::{env, fs};

/// The files and folders that are copied, each with the declaration of its module.
const MODULES: [(&str, &str); 4] = [
    ("crates/leaselock/src", "mod leaselock;"),
    ("crates/ledger/src/write", "pub(crate) mod write;"),
    ("crates/ledger/src/work/item_concurrency.rs", "pub(crate) mod item_concurrency;"),
    ("src/consumer", "mod consumer;"),
];

/// What this crate has instead of some files.
const STATEMENTS: &str = "tests/interleavings/src/statements";
/// The file that no run needs: it is empty.
const LEFT_OUT: &str = "restock.rs";

/// Texts that are other ones in each copy: this crate has locks of its own, full batches of few orders, rounds of few answers,
/// buyers on other runtimes, and runs that see private items.
const REPLACED: [Planted; 6] = [
    Planted {
        file: "crates/ledger/src/write/answers.rs",
        right: "const EACH_ROUND: usize = 16;",
        wrong: "const EACH_ROUND: usize = 1;",
    },
    Planted {
        file: "crates/ledger/src/write/group_commit/queue.rs",
        right: "let runtime = Handle::current();",
        wrong: "let runtime = Handle::any();",
    },
    Planted {
        file: "crates/ledger/src/write/group_commit/queue.rs",
        right: "pub const BATCH_MAX: usize = 256;",
        wrong: "pub const BATCH_MAX: usize = 3;",
    },
    Planted {
        file: "src/consumer/mod.rs",
        right: "use std::sync::{Arc, Mutex, MutexGuard, PoisonError};",
        wrong: "use crate::threads::{Mutex, MutexGuard};\nuse std::sync::{Arc, PoisonError};",
    },
    Planted {
        file: "crates/ledger/src/write/mod.rs",
        right: "pub use new_order::Fence;",
        wrong: "pub use new_order::Fence;\npub use group_commit::batch_runs;",
    },
    Planted {
        file: "crates/ledger/src/write/group_commit/mod.rs",
        right: "mod batch;",
        wrong: concat!(
            "#[path = \"",
            env!("CARGO_MANIFEST_DIR"),
            "/src/batch_runs.rs\"]\npub mod batch_runs;\nmod batch;"
        ),
    },
];

/// A text of a file, and the text with the mistake.
struct Planted {
    file: &'static str,
    right: &'static str,
    wrong: &'static str,
}

const PLANTED: [Planted; 22] = [
    Planted {
        file: "crates/leaselock/src/core/hold.rs",
        right: "if state.phase != Phase::Held {",
        wrong: r#"if state.phase != Phase::Held && !crate::threads::planted("a hold is lost after its end") {"#,
    },
    Planted {
        file: "crates/leaselock/src/core/queue.rs",
        right: "Err(WakeReason::Head(mut returned)) => returned.queues = None,",
        wrong: r#"Err(WakeReason::Head(mut returned)) => {
            returned.queues = None;
            if crate::threads::planted("the head ends with a waiter that has left") {
                return;
            }
        }"#,
    },
    Planted {
        file: "crates/leaselock/src/core/guard.rs",
        right: "state.hand_overs += 1;",
        wrong: r#"let is_counted_late = crate::threads::planted("a hand-over is counted when the next one holds");
            state.hand_overs += u32::from(!is_counted_late);"#,
    },
    Planted {
        file: "crates/leaselock/src/core/guard.rs",
        right: "match call.send(WakeReason::Guard(next)) {\n                Ok(()) => {",
        wrong: "match call.send(WakeReason::Guard(next)) {\n                Ok(()) => {
                    self.hold.locked().hand_overs += u32::from(is_counted_late);",
    },
    Planted {
        file: "crates/ledger/src/write/answers.rs",
        right: "drop(round);",
        wrong: r#"let is_last = crate::threads::planted("the task of the answers ends without a last look")
                && locked(&self.0).items.is_empty();
            drop(round);
            if is_last {
                locked(&self.0).is_served = false;
                return;
            }"#,
    },
    Planted {
        file: "crates/ledger/src/write/group_commit/queue.rs",
        right: "if !has_come && state.waiting.is_empty() {",
        wrong: r#"let has_ended = crate::threads::planted("a task ends without a last look");
            if !has_come && (has_ended || state.waiting.is_empty()) {"#,
    },
    Planted {
        file: "crates/ledger/src/write/group_commit/pipeline.rs",
        right: "self.rows = None;\n            self.enter_rows(ROWS_MAX).await;",
        wrong: r#"let keeps_its_own = crate::threads::planted("a batch keeps its place while it waits for all");
            if !keeps_its_own {
                self.rows = None;
            }
            self.enter_rows(ROWS_MAX - u32::from(keeps_its_own)).await;"#,
    },
    Planted {
        file: "crates/ledger/src/write/group_commit/fair_queue.rs",
        right: "let Some(entry) = queue.get_mut().pop_front()",
        wrong: r#"let Some(entry) = (if crate::threads::planted("the last order of an item is the first") {
                queue.get_mut().pop_back()
            } else {
                queue.get_mut().pop_front()
            })"#,
    },
    Planted {
        file: "crates/ledger/src/work/item_concurrency.rs",
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
    Planted {
        file: "crates/ledger/src/write/group_commit/group.rs",
        right: "let is_apart = lines.iter().any(|line| self.is_quarantined(line.item.id));",
        wrong: r#"let is_apart = lines.iter().any(|line| self.is_quarantined(line.item.id));
        let looks_twice = crate::threads::planted("an order of several items is looked at twice");
        if looks_twice && is_apart && !lines.iter().any(|line| self.is_quarantined(line.item.id)) {
            return Some(self.own_queue(item));
        }"#,
    },
    Planted {
        file: "crates/ledger/src/write/group_commit/group.rs",
        right: "_ if claim(&claimed) =>",
        wrong: r#"_ if claim(&claimed) || crate::threads::planted("an order is late that a batch has") =>"#,
    },
    Planted {
        file: "crates/ledger/src/write/group_commit/quarantine.rs",
        right: "let needs_watch = state.until.is_some() && !state.is_watched;",
        wrong: r#"let is_kept = crate::threads::planted("an item without orders stays in quarantine");
        let needs_watch = state.until.is_some() && !state.is_watched && !is_kept;"#,
    },
    Planted {
        file: "crates/ledger/src/write/group_commit/pre_check.rs",
        right: "} else if units > available {",
        wrong: r#"} else if units
                > if crate::threads::planted("a look refuses for what it has not written") {
                    available - taken.of_item.get(&item).copied().unwrap_or_default()
                } else {
                    available
                }
            {"#,
    },
    Planted {
        file: "crates/ledger/src/write/group_commit/batch.rs",
        right: "slot.leave();\n                    slot.enter_again().await;\n                    continue;",
        wrong: r#"if !crate::threads::planted("a late batch keeps its stage") {
                        slot.leave();
                    }
                    slot.enter_again().await;
                    continue;"#,
    },
    Planted {
        file: "crates/ledger/src/write/group_commit/sql.rs",
        right: "Err(BatchError::AtCommit(error))",
        wrong: r#"if crate::threads::planted("a batch without an answer to COMMIT is rolled back") {
                        return Err(BatchError::Before(error));
                    }
                    Err(BatchError::AtCommit(error))"#,
    },
    Planted {
        file: "crates/ledger/src/write/transaction.rs",
        right: "sqlx::query(lock)\n            .binds((item.id.get(), buyer.get(), key.as_str()))\n            .fetch_optional(&mut *transaction)\n            .await?;",
        wrong: r#"if !crate::threads::planted("a slow COMMIT is not waited for") {
            sqlx::query(lock)
                .binds((item.id.get(), buyer.get(), key.as_str()))
                .fetch_optional(&mut *transaction)
                .await?;
        }"#,
    },
    Planted {
        file: "crates/ledger/src/write/mod.rs",
        right: "Attempt::Done(answer) if may_run => {",
        wrong: r#"Attempt::Done(answer)
                    if may_run && !crate::threads::planted("a call without an answer is forgotten") =>
                {"#,
    },
    Planted {
        file: "crates/ledger/src/write/reject.rs",
        right: "for key in [purchase.key.clone(), own_key] {",
        wrong: r#"let keys = 2 - usize::from(crate::threads::planted("a key of another order is not changed"));
        for key in [purchase.key.clone(), own_key].into_iter().take(keys) {"#,
    },
    Planted {
        file: "src/consumer/decide.rs",
        right: "if !Box::pin(self.parts.arbiter.takes_others(purchase)).await {",
        wrong: r#"let asks = !crate::threads::planted("a ledger that takes none makes dead letters");
        if asks && !Box::pin(self.parts.arbiter.takes_others(purchase)).await {"#,
    },
    Planted {
        file: "src/consumer/decide.rs",
        right: "self.try_once(purchase).await\n    }",
        wrong: r#"if crate::threads::planted("a ledger that takes orders again makes a dead letter") {
            return decision;
        }
        self.try_once(purchase).await
    }"#,
    },
    Planted {
        file: "src/consumer/decide.rs",
        right: "Ok(Some(order)) => Decision::Decided(order),",
        wrong: r#"Ok(Some(_)) if crate::threads::planted("a sold order becomes a dead letter") => decision,
            Ok(Some(order)) => Decision::Decided(order),"#,
    },
    Planted {
        file: "src/consumer/decide.rs",
        right: "Outcome::Sold(order) if order.id == purchase.order_id => Decision::Decided(order),",
        wrong: r#"Outcome::Sold(order) if order.id == purchase.order_id => Decision::Decided(order),
            Outcome::Replayed(order)
                if crate::threads::planted("a queued order is decided as another one") =>
            {
                Decision::Decided(order)
            }"#,
    },
];

fn main() {
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../..");
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo sets it"));
    println!("cargo::rerun-if-changed=build.rs");
    for (from, module) in MODULES {
        copy(&root, &out, Path::new(from), Path::new(from));
        declare(&out, from, module);
    }
    let write = Path::new("crates/ledger/src/write");
    copy(&root, &out, Path::new(STATEMENTS), write);
    fs::write(out.join(write).join(LEFT_OUT), "").expect("the copy can be written");
}

/// Copies a file or a folder, with the mistakes of its files.
fn copy(root: &Path, out: &Path, from: &Path, to: &Path) {
    let source = root.join(from);
    println!("cargo::rerun-if-changed={}", source.display());
    if source.is_dir() {
        fs::create_dir_all(out.join(to)).expect("the folder of the build can be written");
        for entry in fs::read_dir(&source).expect("a folder of the workspace") {
            let name = entry.expect("an entry").file_name();
            copy(root, out, &from.join(&name), &to.join(&name));
        }
        return;
    }
    let mut text = fs::read_to_string(&source).expect("a file of the workspace");
    let others = REPLACED.iter().chain(&PLANTED);
    for planted in others.filter(|planted| Path::new(planted.file) == from) {
        let times = text.matches(planted.right).count();
        assert_eq!(times, 1, "{}: a mistake replaces this text: {}", planted.file, planted.right);
        text = text.replace(planted.right, planted.wrong);
    }
    let to = out.join(to);
    fs::create_dir_all(to.parent().expect("a folder")).expect("the folder can be written");
    fs::write(to, text).expect("the copy can be written");
}

/// Writes the declaration of a module whose files are copies, for `include!`.
fn declare(out: &Path, from: &str, module: &str) {
    let path = if out.join(from).is_dir() {
        let root = out.join(from).join("lib.rs");
        if root.exists() { root } else { out.join(from).join("mod.rs") }
    } else {
        out.join(from)
    };
    let name = module.trim_end_matches(';').rsplit(' ').next().expect("a name");
    let text = format!(
        "#[allow(clippy::all, dead_code, unexpected_cfgs, unused_imports, unused_qualifications, reason = \
         \"it has callers that this crate has not\")]\n#[path = {path:?}]\n{module}\n"
    );
    fs::write(out.join(format!("{name}.rs")), text).expect("the declaration can be written");
}
