//! What the service makes of Vitess' words, said by a server that every run of the tests has.

use std::sync::atomic::{AtomicU32, Ordering};

use dev_servers::MysqlOptions;
use dev_servers::faulty_link::FaultyLink;
use ledger::rows::{self, check};
use settings::Secret;
use sqlx::Executor;

use crate::ledger::hostile_server::OF_OTHERS;
use crate::process::start_mistakes::is_mariadb;
use crate::support::{Shop, own_mysql};

/// What a server is told to say: the message of a vtgate, which ends with the values of the statement.
const TAKEN: &str = "SIGNAL SQLSTATE '23000' SET MYSQL_ERRNO = 1062, MESSAGE_TEXT = 'Duplicate entry ''5'' for key \
     ''users.PRIMARY'' (errno 1062) (sqlstate 23000) (CallerID: u): Sql: \"x\", BindVars: {v1: $argon2id$}'";

#[tokio::test]
async fn a_taken_id_is_known_behind_a_vtgate_and_no_value_is_shown() {
    let shop = Shop::new().await;
    let tries = AtomicU32::new(0);
    let taken = rows::with_new_id(|| {
        tries.fetch_add(1, Ordering::Relaxed);
        rows::transact(&shop.pool, |transaction| {
            Box::pin(async move { transaction.execute(sqlx::raw_sql(TAKEN)).await.map(drop) })
        })
    });
    let error = taken.await.expect_err("each id is taken");
    assert_eq!(tries.into_inner(), 4, "each try has a new id");
    let texts = format!("{error} {error:?}");
    assert!(texts.contains("'users.PRIMARY'") && !texts.contains("$argon2id$"), "{texts}");
}

/// A session on Vitess is sent fewer settings, and some that other servers refuse. The first one on another server after
/// it gets all that are for this server.
#[tokio::test]
async fn an_address_that_led_to_vitess_gets_all_settings_when_it_leads_elsewhere() {
    let shop = Shop::new().await;
    if !is_mariadb(&shop).await {
        return println!("left out: MySQL has no option for the version that it names");
    }
    let mut options = MysqlOptions::temporary();
    options.extra_statements = OF_OTHERS.map(str::to_owned).to_vec();
    options.extra_arguments = vec!["--version=8.4.0-Vitess".to_owned()];
    let server = own_mysql(options).await;
    let link = FaultyLink::to_url(&server.tcp_url()).await.expect("a link");
    let mut config = shop.config.clone();
    config.database_url = Secret::new(link.url());
    let pool = rows::pool_of(&config, 3).expect("the URL is fine");
    let _first = pool.acquire().await.expect("the session that finds Vitess");
    // From now on the server does not say its version.
    link.blank(b"version");
    assert_eq!(check::session_differences(&pool).await.expect("read"), Vec::<String>::new());
}
