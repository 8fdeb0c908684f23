//! TLS to the ledger: off unless the URL asks for it, and verified where it says so.
//!
//! The certificates in `tests/ledger/tls` are for 127.0.0.1 and localhost, by an authority whose key is
//! thrown away, and good for a hundred years.

use mysql_connection::engine::Engine;

use crate::support::prelude::*;

fn file(name: &str) -> String {
    format!("{}/tests/ledger/tls/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A database server that offers TLS with a certificate of its own authority.
async fn server_with_tls() -> MysqlServer {
    let mut options = MysqlOptions::temporary();
    options.extra_arguments = vec![
        format!("--ssl-ca={}", file("ca.pem")),
        format!("--ssl-cert={}", file("server.pem")),
        format!("--ssl-key={}", file("server.key")),
    ];
    own_mysql(options).await
}

/// A shop over TCP with further parameters in its URL.
async fn shop(server: &MysqlServer, parameters: &str) -> Shop {
    let url = format!("{}{parameters}", server.tcp_url_of(&unique("seckill")));
    Shop::with(|config| config.database_url = Secret::new(url)).await
}

async fn tls_of(shop: &Shop) -> Option<String> {
    Engine::read(&shop.pool).await.expect("it answers").tls
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_is_spoken_where_the_url_asks_and_verified_where_it_says_so() {
    let server = server_with_tls().await;
    without_it_unless_the_url_asks(&server).await;
    a_verified_server_sells_and_one_of_an_unknown_authority_is_refused(&server).await;
    sells_by_a_socket_with_tls(&server).await;
}

async fn without_it_unless_the_url_asks(server: &MysqlServer) {
    assert_eq!(tls_of(&shop(server, "").await).await, None);
    let required = shop(server, "?ssl-mode=REQUIRED").await;
    let protocol = tls_of(&required).await.expect("TLS is in force");
    assert!(protocol.starts_with("TLSv1."), "{protocol}");
}

async fn a_verified_server_sells_and_one_of_an_unknown_authority_is_refused(server: &MysqlServer) {
    let verified = format!("?ssl-mode=VERIFY_IDENTITY&ssl-ca={}", file("ca.pem"));
    let shop = shop(server, &verified).await;
    assert!(tls_of(&shop).await.is_some());
    let instance = shop.start().await;
    let item = instance.make_item(json!({})).await;
    assert_eq!(instance.buyer(1).buy("mysql-batch", item).await.status, 201);

    let mut config = shop.config.clone();
    let unknown = config.database_url.reveal().replace(&verified, "?ssl-mode=VERIFY_CA");
    config.database_url = Secret::new(unknown);
    let pool = mysql_connection::pool(&config).expect("the URL is fine");
    let refused = pool.acquire().await.expect_err("nobody vouches for the server").to_string();
    assert!(refused.contains("certificate") || refused.contains("UnknownIssuer"), "{refused}");
}

/// As docker-compose.yml has it: MySQL's logins need TLS on a socket.
async fn sells_by_a_socket_with_tls(server: &MysqlServer) {
    let mut url = server.socket_url_of(&unique("seckill"));
    if !url.contains("ssl-mode") {
        url.push_str("&ssl-mode=REQUIRED");
    }
    let shop = Shop::with(|config| config.database_url = Secret::new(url)).await;
    assert!(tls_of(&shop).await.is_some());
    let instance = shop.start().await;
    let item = instance.make_item(json!({})).await;
    assert_eq!(instance.buyer(1).buy("mysql-batch", item).await.status, 201);
}
