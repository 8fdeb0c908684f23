//! A database whose disk is full: a small file system of its own, and a file that takes what is left.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};

use forgetful_disk::SmallDisk;
use tokio::time::Instant;

use super::mysql::execute;
use crate::prelude::*;
use crate::trial::{RECOVERY_MAX, when_it_stops};

/// Holds a new database and its log, and little else.
const DISK_MIB: u32 = 480;
/// How long one command may take.
const COMMAND_MAX: Duration = Duration::from_secs(60);
/// Why there may be no such disk.
const NOT_ROOT: &str = "only root may mount a small disk";
/// More rows of ours than the pages of their table can take.
const ROWS_MAX: usize = 1_000;
/// What makes a database so small, whichever of its kinds it is.
const SMALL: &str = "--innodb-buffer-pool-size=64M --loose-innodb-log-file-size=16M \
                     --loose-innodb-redo-log-capacity=16M";

/// The database's disk is full, and later it is not.
pub async fn full(testbed: &mut Testbed, seed: u64) -> TrialResult {
    let Some((disk, usual)) = on_small_disk(testbed).await? else { return Ok(left_out(NOT_ROOT)) };
    let plan = Plan::new(seed, Wanted::Safe, &testbed.setup_of_new_ledger());
    let trial = run_trial(testbed, plan, async |testbed, trial| {
        let mut operator = testbed.operator().await?;
        execute(&mut operator, "CREATE TABLE fault_room (piece CHAR(250))").await?;
        let error = disk.fill().said()?;
        // Pages that the tables have already are still written: it stops when they are full, and even
        // then an order may still fit where a batch did not.
        let then = when_it_stops(|| trial.sold()).await;
        sleep(FAULT).await;
        let sold = trial.sold() - then;
        let mut refused = String::new();
        for _ in 0..ROWS_MAX {
            let row = "INSERT INTO fault_room VALUES (REPEAT('x', 250))";
            if let Err(why) = execute(&mut operator, row).await {
                refused = why;
                break;
            }
        }
        disk.empty().said()?;
        writes_again(testbed).await?;
        let proof = format!("a file grew until \"{error}\"; {sold} were sold meanwhile; {refused}");
        proven(refused.contains("full"), proof)
    });
    let trial = trial.await;
    std::mem::replace(&mut testbed.mysql, usual).stop().await;
    trial
}

/// The disk fills while `seckill migrate` makes the indexes of `orders`; when there is room, it is run again.
pub async fn full_during_change(testbed: &mut Testbed, seed: u64) -> TrialResult {
    let Some((disk, usual)) = on_small_disk(testbed).await? else { return Ok(left_out(NOT_ROOT)) };
    let setup = testbed.setup_of_new_ledger();
    let mut plan = Plan::new(seed, Wanted::Safe, &setup);
    plan.stock *= 10;
    let trial = run_trial(testbed, plan, async |testbed, trial| {
        let mut operator = testbed.operator().await?;
        for statement in OF_THE_BUILD_BEFORE.into_iter().chain([OLDER_ORDERS]) {
            execute(&mut operator, statement).await?;
        }
        disk.fill().and_then(|_| disk.make_room(ROOM_BYTES)).said()?;
        let before = trial.sold();
        let broken_off = told(&setup, &["migrate"]).await?;
        sleep(FAULT).await;
        let sold = trial.sold() - before;
        let indexes = indexes(&mut operator).await?;
        disk.empty().said()?;
        operator = writes_again(testbed).await?;
        trial.fault_ended();
        for arguments in [&["migrate"][..], &["migrate", "--contract"]] {
            let (done, text) = told(&setup, arguments).await?;
            if !done {
                return Err(format!("{arguments:?} with room: {text}"));
            }
        }
        let after = self::indexes(&mut operator).await?;
        let proof = format!(
            "the change broke off: {}; then the indexes were {indexes}, and {sold} were sold; with room, {after}",
            broken_off.1.trim()
        );
        let is_plain = !broken_off.0 && broken_off.1.contains("free some space");
        let is_old = indexes.contains("orders_request") && !indexes.contains("orders_buyer");
        proven(is_plain && is_old && after == "orders_buyer, orders_item_request", proof)
    });
    let trial = trial.await;
    std::mem::replace(&mut testbed.mysql, usual).stop().await;
    trial
}

/// Waits until the database writes with the room that it has again. It may give up, also a moment later; then it is
/// started again, as an operator would.
async fn writes_again(testbed: &mut Testbed) -> Run<MySqlConnection> {
    let end = Instant::now() + RECOVERY_MAX;
    loop {
        if !testbed.mysql.resume() {
            testbed.mysql.restart().await.said()?;
        }
        let why = match testbed.operator().await {
            Ok(mut operator) => {
                match timeout(COMMAND_MAX, execute(&mut operator, ROOM_AGAIN)).await {
                    Ok(Ok(())) => return Ok(operator),
                    Ok(Err(why)) => why,
                    Err(_) => "it does not answer".to_owned(),
                }
            }
            Err(why) => why,
        };
        if Instant::now() >= end {
            return Err(format!("there is room, and the database does not write: {why}"));
        }
        sleep(PAUSE).await;
    }
}

/// A write that shows that there is room.
const ROOM_AGAIN: &str = "CREATE TABLE IF NOT EXISTS fault_room_again (piece INT); INSERT INTO fault_room_again VALUES (1)";
/// Between two such writes.
const PAUSE: Duration = Duration::from_millis(100);

/// Back to the indexes of the build before.
const OF_THE_BUILD_BEFORE: [&str; 2] = [
    "ALTER TABLE orders ADD UNIQUE KEY orders_request (user_id, item_id, request_key), \
     DROP KEY orders_item_request, DROP KEY orders_buyer",
    "UPDATE schema_needs SET known_version_min = 1",
];
/// Orders of another item, whose indexes need more than [`ROOM_BYTES`].
const OLDER_ORDERS: &str = "INSERT INTO orders \
     (id, item_id, user_id, quantity, amount_cents, status, strategy, request_key, created_at, expires_at) \
     WITH RECURSIVE n (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n WHERE n < 249) \
     SELECT CONCAT('00000000-0000-7000-8000-', LPAD(a.n * 250 + b.n, 12, '0')), 999999999, 1 + a.n, 1, 1, 'paid', \
       'mysql-batch', UUID(), UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) FROM n AS a JOIN n AS b";
/// What is left for the change and for the orders meanwhile.
const ROOM_BYTES: u64 = 4 << 20;

/// The indexes that the change replaces, by name.
async fn indexes(operator: &mut MySqlConnection) -> Run<String> {
    let names = "SELECT CAST(GROUP_CONCAT(DISTINCT index_name ORDER BY index_name SEPARATOR ', ') AS CHAR) \
         FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = 'orders' \
         AND index_name IN ('orders_request', 'orders_item_request', 'orders_buyer')";
    let names: Result<Option<String>, _> = sqlx::query_scalar(names).fetch_one(operator).await;
    names.map(Option::unwrap_or_default).said()
}

/// Runs the program to its end; returns whether it succeeded, and what it said of errors.
async fn told(setup: &Setup, arguments: &[&str]) -> Run<(bool, String)> {
    let ended = timeout(COMMAND_MAX, setup.command(arguments, None).output()).await;
    let ended = ended.map_err(|_| format!("{arguments:?} hangs"))?.said()?;
    Ok((ended.status.success(), String::from_utf8_lossy(&ended.stderr).into_owned()))
}

/// Makes a database on a small disk the ledger of this trial; `None` where we may not mount one. Returns the
/// disk, and the usual ledger.
async fn on_small_disk(testbed: &mut Testbed) -> Run<Option<(SmallDisk, MysqlServer)>> {
    let folder = testbed.folder().join("small-disk");
    let Some(disk) = SmallDisk::mount(&folder.join("disk"), DISK_MIB) else { return Ok(None) };
    let mut options = MysqlOptions::new(disk.folder().join("mysql"));
    let small = small_server(&folder, options.program.take(), testbed.mysql.pid());
    options.program = Some(small.said()?);
    let small = testbed.ledger(options).await?;
    Ok(Some((disk, std::mem::replace(&mut testbed.mysql, small))))
}

/// A wrapper of a server's program with further arguments, beside what belongs to it. Without `named`, the program is
/// that of the running server with this process number.
pub fn small_server(folder: &Path, named: Option<PathBuf>, running: u32) -> io::Result<PathBuf> {
    // A server that a loader runs has the loader's name there, so such a one is named.
    let program = match named {
        Some(named) => named,
        None => fs::read_link(format!("/proc/{running}/exe"))?,
    };
    let prefix = program.parent().and_then(Path::parent).unwrap_or(Path::new("/usr"));
    let wrapper = folder.join("bin/database");
    fs::create_dir_all(folder.join("bin"))?;
    let _ = fs::remove_file(folder.join("share"));
    symlink(prefix.join("share"), folder.join("share"))?;
    fs::write(&wrapper, format!("#!/bin/sh\nexec '{}' \"$@\" {SMALL}\n", program.display()))?;
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o700))?;
    Ok(wrapper)
}
