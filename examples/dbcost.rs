#![allow(missing_docs, clippy::all, clippy::unwrap_used, clippy::pedantic)]
use sqlx::{Connection, Executor, Row, mysql::MySqlConnection};
use std::time::Instant;
fn cpu(pid: u32) -> f64 {
    let t = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let f: Vec<&str> = t[t.rfind(')').unwrap() + 2..].split(' ').collect();
    (f[11].parse::<f64>().unwrap() + f[12].parse::<f64>().unwrap()) / 100.0
}
struct O {
    id: String,
    user: i64,
    key: String,
}
fn batch(n: usize, u: &mut i64) -> Vec<O> {
    (0..n)
        .map(|_| {
            *u += 1;
            let user = (*u).wrapping_mul(7919) % 10_000_019 + 2_000_000_000;
            O {
                id: uuid::Uuid::now_v7().to_string(),
                user,
                key: format!("k{:032x}", rand::random::<u128>()),
            }
        })
        .collect()
}
fn places(one: &str, n: usize) -> String {
    vec![one; n].join(", ")
}
const NOW: &str = "2026-11-21 20:00:00.123456";
async fn prepared(
    c: &mut MySqlConnection,
    b: &[O],
    item: i64,
    lookups: bool,
    pieces: &dyn Fn(usize) -> Vec<usize>,
) {
    let now = time::OffsetDateTime::now_utc();
    let now = time::PrimitiveDateTime::new(now.date(), now.time());
    if lookups {
        let mut at = 0;
        for n in pieces(b.len()) {
            let ch = &b[at..at + n];
            at += n;
            let s = format!(
                "SELECT id, item_id, user_id, quantity, amount_cents, status, strategy, fence, created_at, expires_at, paid_at, request_key FROM orders WHERE item_id = ? AND (user_id, request_key) IN ({})",
                places("(?, ?)", n)
            );
            let mut q = sqlx::query(&s).bind(item);
            for o in ch {
                q = q.bind(o.user).bind(&o.key);
            }
            q.fetch_all(&mut *c).await.unwrap();
            let s = format!(
                "SELECT user_id, bought FROM buyer_limits WHERE item_id = ? AND user_id IN ({})",
                places("?", n)
            );
            let mut q = sqlx::query(&s).bind(item);
            for o in ch {
                q = q.bind(o.user);
            }
            q.fetch_all(&mut *c).await.unwrap();
        }
        sqlx::query("SELECT available FROM stock WHERE item_id = ?")
            .bind(item)
            .fetch_one(&mut *c)
            .await
            .unwrap();
    }
    let mut t = c.begin().await.unwrap();
    let mut at = 0;
    for n in pieces(b.len()) {
        let ch = &b[at..at + n];
        at += n;
        let s = format!(
            "INSERT INTO orders (id, item_id, user_id, quantity, amount_cents, status, strategy, fence, request_key, created_at, expires_at) VALUES {}",
            places("(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", n)
        );
        let mut q = sqlx::query(&s);
        for o in ch {
            q = q
                .bind(&o.id)
                .bind(item)
                .bind(o.user)
                .bind(1u32)
                .bind(100i64)
                .bind("pending")
                .bind("mysql-batch")
                .bind(None::<u64>)
                .bind(&o.key)
                .bind(now)
                .bind(now);
        }
        q.execute(&mut *t).await.unwrap();
        let s = format!(
            "INSERT INTO buyer_limits (item_id, user_id, bought, allowed) VALUES {} ON DUPLICATE KEY UPDATE bought = bought + VALUES(bought), allowed = VALUES(allowed)",
            places("(?, ?, ?, ?)", n)
        );
        let mut q = sqlx::query(&s);
        for o in ch {
            q = q.bind(item).bind(o.user).bind(1i64).bind(1000u32);
        }
        q.execute(&mut *t).await.unwrap();
        let s = format!(
            "INSERT INTO stock_movements (item_id, order_id, reason, delta, created_at) VALUES {}",
            places("(?, ?, ?, ?, ?)", n)
        );
        let mut q = sqlx::query(&s);
        for o in ch {
            q = q.bind(item).bind(&o.id).bind("sold").bind(-1i64).bind(now);
        }
        q.execute(&mut *t).await.unwrap();
    }
    sqlx::query("UPDATE stock SET available = available - ?, version = version + 1 WHERE item_id = ? AND available >= ?").bind(b.len() as i64).bind(item).bind(b.len() as i64).execute(&mut *t).await.unwrap();
    t.commit().await.unwrap();
}
async fn text(c: &mut MySqlConnection, b: &[O], item: i64, lookups: bool) {
    use std::fmt::Write;
    let n = b.len();
    if lookups {
        let mut s = format!(
            "SELECT id, item_id, user_id, quantity, amount_cents, status, strategy, fence, created_at, expires_at, paid_at, request_key FROM orders WHERE item_id = {item} AND (user_id, request_key) IN ("
        );
        for (i, o) in b.iter().enumerate() {
            if i > 0 {
                s.push(',');
            }
            write!(s, "({},'{}')", o.user, o.key).unwrap();
        }
        write!(
            s,
            ");SELECT user_id, bought FROM buyer_limits WHERE item_id = {item} AND user_id IN ("
        )
        .unwrap();
        for (i, o) in b.iter().enumerate() {
            if i > 0 {
                s.push(',');
            }
            write!(s, "{}", o.user).unwrap();
        }
        write!(s, ");SELECT available FROM stock WHERE item_id = {item}").unwrap();
        c.fetch_all(sqlx::raw_sql(&s)).await.unwrap();
    }
    let mut s = String::from(
        "BEGIN;INSERT INTO orders (id, item_id, user_id, quantity, amount_cents, status, strategy, fence, request_key, created_at, expires_at) VALUES ",
    );
    for (i, o) in b.iter().enumerate() {
        if i > 0 {
            s.push(',');
        }
        write!(
            s,
            "('{}',{item},{},1,100,'pending','mysql-batch',NULL,'{}','{NOW}','{NOW}')",
            o.id, o.user, o.key
        )
        .unwrap();
    }
    s.push_str(";INSERT INTO buyer_limits (item_id, user_id, bought, allowed) VALUES ");
    for (i, o) in b.iter().enumerate() {
        if i > 0 {
            s.push(',');
        }
        write!(s, "({item},{},1,1000)", o.user).unwrap();
    }
    s.push_str(" ON DUPLICATE KEY UPDATE bought = bought + VALUES(bought), allowed = VALUES(allowed);INSERT INTO stock_movements (item_id, order_id, reason, delta, created_at) VALUES ");
    for (i, o) in b.iter().enumerate() {
        if i > 0 {
            s.push(',');
        }
        write!(s, "({item},'{}','sold',-1,'{NOW}')", o.id).unwrap();
    }
    write!(s, ";UPDATE stock SET available = available - {n}, version = version + 1 WHERE item_id = {item} AND available >= {n}").unwrap();
    c.execute(sqlx::raw_sql(&s)).await.unwrap();
    c.execute(sqlx::raw_sql("COMMIT")).await.unwrap();
}
async fn json(c: &mut MySqlConnection, b: &[O], item: i64) {
    use std::fmt::Write;
    let mut s = String::from("[");
    for (i, o) in b.iter().enumerate() {
        if i > 0 {
            s.push(',');
        }
        write!(s, "[\"{}\",{},\"{}\"]", o.id, o.user, o.key).unwrap();
    }
    s.push(']');
    let n = b.len() as i64;
    let mut t = c.begin().await.unwrap();
    sqlx::query("INSERT INTO orders (id, item_id, user_id, quantity, amount_cents, status, strategy, fence, request_key, created_at, expires_at) SELECT j.id, ?, j.user, 1, 100, 'pending', 'mysql-batch', NULL, j.k, ?, ? FROM JSON_TABLE(?, '$[*]' COLUMNS(id CHAR(36) CHARACTER SET ascii PATH '$[0]', user BIGINT PATH '$[1]', k VARCHAR(64) CHARACTER SET ascii PATH '$[2]')) j").bind(item).bind(NOW).bind(NOW).bind(&s).execute(&mut *t).await.unwrap();
    sqlx::query("INSERT INTO buyer_limits (item_id, user_id, bought, allowed) SELECT ?, j.user, 1, 1000 FROM JSON_TABLE(?, '$[*]' COLUMNS(user BIGINT PATH '$[1]')) j ON DUPLICATE KEY UPDATE bought = bought + VALUES(bought), allowed = VALUES(allowed)").bind(item).bind(&s).execute(&mut *t).await.unwrap();
    sqlx::query("INSERT INTO stock_movements (item_id, order_id, reason, delta, created_at) SELECT ?, j.id, 'sold', -1, ? FROM JSON_TABLE(?, '$[*]' COLUMNS(id CHAR(36) CHARACTER SET ascii PATH '$[0]')) j").bind(item).bind(NOW).bind(&s).execute(&mut *t).await.unwrap();
    sqlx::query("UPDATE stock SET available = available - ?, version = version + 1 WHERE item_id = ? AND available >= ?").bind(n).bind(item).bind(n).execute(&mut *t).await.unwrap();
    t.commit().await.unwrap();
}
fn pow2(n: usize) -> Vec<usize> {
    let mut r = n;
    let mut v = vec![];
    while r > 0 {
        let l = 1 << r.ilog2();
        v.push(l);
        r -= l;
    }
    v
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let url = std::env::var("DATABASE_URL").unwrap();
    let pid: u32 = std::env::var("DBPID").unwrap().parse().unwrap();
    let item = 5i64;
    let mut u = rand::random::<u32>() as i64;
    for round in 0..4 {
        for v in [
            "base128",
            "ascii128",
            "ascii+lit128",
            "ascii+lit256",
            "lit128",
            "text128",
            "text256",
            "ascii+text256",
        ] {
            let mut c = MySqlConnection::connect(&url).await.unwrap();
            c.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED").await.unwrap();
            if v.contains("ascii") {
                c.execute(sqlx::raw_sql("SET NAMES ascii COLLATE ascii_bin")).await.unwrap();
            }
            let lit = v.contains("lit");
            let n = if v.contains("256") { 256 } else { 128 };
            for t in ["orders", "buyer_limits", "stock_movements"] {
                c.execute(sqlx::raw_sql(&format!(
                    "DROP TABLE IF EXISTS x_{t}; CREATE TABLE x_{t} LIKE {t}"
                )))
                .await
                .unwrap();
            }
            let batches: Vec<Vec<O>> = (0..(25600 / n)).map(|_| batch(n, &mut u)).collect();
            let now = time::OffsetDateTime::now_utc();
            let now = time::PrimitiveDateTime::new(now.date(), now.time());
            let (d0, t0) = (cpu(pid), Instant::now());
            for b in &batches {
                let mut t = c.begin().await.unwrap();
                if v.contains("text") {
                    use std::fmt::Write;
                    let mut s = String::from(
                        "INSERT INTO x_orders (id, item_id, user_id, quantity, amount_cents, status, strategy, fence, request_key, created_at, expires_at) VALUES ",
                    );
                    for (i, o) in b.iter().enumerate() {
                        if i > 0 {
                            s.push(',');
                        }
                        write!(s, "('{}',{item},{},1,100,'pending','mysql-batch',NULL,'{}','{NOW}','{NOW}')", o.id, o.user, o.key).unwrap();
                    }
                    t.execute(sqlx::raw_sql(&s)).await.unwrap();
                    let mut s = String::from(
                        "INSERT INTO x_buyer_limits (item_id, user_id, bought, allowed) VALUES ",
                    );
                    for (i, o) in b.iter().enumerate() {
                        if i > 0 {
                            s.push(',');
                        }
                        write!(s, "({item},{},1,1000)", o.user).unwrap();
                    }
                    s.push_str(" ON DUPLICATE KEY UPDATE bought = bought + VALUES(bought), allowed = VALUES(allowed);INSERT INTO x_stock_movements (item_id, order_id, reason, delta, created_at) VALUES ");
                    for (i, o) in b.iter().enumerate() {
                        if i > 0 {
                            s.push(',');
                        }
                        write!(s, "({item},'{}','sold',-1,'{NOW}')", o.id).unwrap();
                    }
                    t.execute(sqlx::raw_sql(&s)).await.unwrap();
                    t.commit().await.unwrap();
                    continue;
                }
                let s = format!(
                    "INSERT INTO x_orders (id, item_id, user_id, quantity, amount_cents, status, strategy, fence, request_key, created_at, expires_at) VALUES {}",
                    places(
                        if lit {
                            "(?, ?, ?, ?, ?, 'pending', ?, NULL, ?, ?, ?)"
                        } else {
                            "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
                        },
                        n
                    )
                );
                let mut q = sqlx::query(&s);
                for o in b {
                    q = q.bind(&o.id).bind(item).bind(o.user).bind(1u32).bind(100i64);
                    if !lit {
                        q = q.bind("pending");
                    }
                    q = q.bind("mysql-batch");
                    if !lit {
                        q = q.bind(None::<u64>);
                    }
                    q = q.bind(&o.key).bind(now).bind(now);
                }
                q.execute(&mut *t).await.unwrap();
                let s = format!(
                    "INSERT INTO x_buyer_limits (item_id, user_id, bought, allowed) VALUES {} ON DUPLICATE KEY UPDATE bought = bought + VALUES(bought), allowed = VALUES(allowed)",
                    places("(?, ?, ?, ?)", n)
                );
                let mut q = sqlx::query(&s);
                for o in b {
                    q = q.bind(item).bind(o.user).bind(1i64).bind(1000u32);
                }
                q.execute(&mut *t).await.unwrap();
                let s = format!(
                    "INSERT INTO x_stock_movements (item_id, order_id, reason, delta, created_at) VALUES {}",
                    places(if lit { "(?, ?, 'sold', ?, ?)" } else { "(?, ?, ?, ?, ?)" }, n)
                );
                let mut q = sqlx::query(&s);
                for o in b {
                    q = q.bind(item).bind(&o.id);
                    if !lit {
                        q = q.bind("sold");
                    }
                    q = q.bind(-1i64).bind(now);
                }
                q.execute(&mut *t).await.unwrap();
                t.commit().await.unwrap();
            }
            let orders = (batches.len() * n) as f64;
            let e = t0.elapsed().as_secs_f64();
            println!(
                "{round} {v:16} {:8.1} us elapsed,  db {:5.1} us per order",
                e * 1e6 / orders,
                (cpu(pid) - d0) * 1e6 / orders
            );
            for t in ["x_orders", "x_buyer_limits", "x_stock_movements"] {
                c.execute(sqlx::raw_sql(&format!("DROP TABLE {t}"))).await.unwrap();
            }
        }
    }
    if false {
        let mut c = MySqlConnection::connect(&url).await.unwrap();
        prepared(&mut c, &[], 0, false, &pow2).await;
        text(&mut c, &[], 0, false).await;
        json(&mut c, &[], 0).await;
        let _ = c.fetch_one("SELECT 1").await.unwrap().len();
    }
}
