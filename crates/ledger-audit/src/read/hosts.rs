//! The hosts of a `mysql://` address, of which one takes writes: `mysql://user:password@h1,h2/shop`.

use std::str::FromStr;

use sqlx::ConnectOptions;
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlSslMode};

use crate::CannotJudge;

/// The options of each host. TLS is off unless the address says `ssl-mode`.
pub(super) fn read(url: &str) -> Result<Vec<MySqlConnectOptions>, CannotJudge> {
    let options = |url: &str| {
        let options = MySqlConnectOptions::from_str(url)
            .map_err(|_| CannotJudge("DATABASE_URL is not a mysql:// address".to_owned()))?
            // The session sets its own mode, and a vtgate refuses these.
            .pipes_as_concat(false)
            .no_engine_substitution(false)
            .disable_statement_logging();
        let chosen = url.contains("ssl-mode=") || url.contains("sslmode=");
        Ok(if chosen { options } else { options.ssl_mode(MySqlSslMode::Disabled) })
    };
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let (authority, tail) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let hosts = authority.rsplit_once('@').map_or(authority, |(_, hosts)| hosts);
    let account = authority.strip_suffix(hosts).unwrap_or_default();
    if !hosts.contains(',') {
        return Ok(vec![options(url)?]);
    }
    hosts.split(',').map(|host| options(&format!("{scheme}://{account}{host}{tail}"))).collect()
}

/// The server's own settings may cut an answer short, or pad it: a reading would be wrong.
const SESSION: &str = "SET autocommit = 1, sql_mode = 'STRICT_ALL_TABLES', sql_big_selects = 1, \
     sql_select_limit = 9223372036854775807, max_sort_length = 1024 \
     /*M! , max_statement_time = 0 */ /*!80000 , max_execution_time = 0 */";

/// Connects to the only host, or to the first that answers and takes writes.
pub(super) async fn writer(hosts: &[MySqlConnectOptions]) -> Result<MySqlConnection, sqlx::Error> {
    let mut last = None;
    for host in hosts {
        match open(host).await {
            Ok(connection) if hosts.len() == 1 => return Ok(connection),
            Ok(mut connection) => {
                let asked = sqlx::query_scalar::<_, String>("SELECT CAST(@@read_only AS CHAR)");
                match asked.fetch_one(&mut connection).await {
                    Ok(read_only) if is_off(&read_only) => return Ok(connection),
                    Ok(_) => {}
                    Err(error) => last = Some(error),
                }
            }
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| sqlx::Error::Configuration("no host takes writes".into())))
}

/// Whether a value of `read_only` means no. MariaDB has words for it from 12.0 on, and each of them is 0 as a number.
fn is_off(read_only: &str) -> bool {
    matches!(read_only, "0" | "OFF")
}

async fn open(host: &MySqlConnectOptions) -> Result<MySqlConnection, sqlx::Error> {
    let mut connection = host.connect().await?;
    sqlx::raw_sql(SESSION).execute(&mut connection).await?;
    Ok(connection)
}

/// Connects to the host of a `mysql://` address that takes writes. Errors never contain the
/// address: it holds a password.
pub async fn writer_of(url: &str) -> Result<MySqlConnection, CannotJudge> {
    let connected = writer(&read(url)?).await;
    connected.map_err(|error| CannotJudge(format!("the database cannot be reached: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_read_only_by_a_number_or_a_word_is_no_writer() {
        assert!(["0", "OFF"].into_iter().all(is_off));
        assert!(!["1", "ON", "NO_LOCK", "NO_LOCK_NO_ADMIN"].into_iter().any(is_off));
    }

    #[test]
    fn each_host_is_read_with_the_account_and_the_database() {
        let hosts = read("mysql://u:p@a,b:3307/shop").unwrap();
        let parts = |host: &MySqlConnectOptions| {
            (host.get_host().to_owned(), host.get_port(), host.get_username().to_owned())
        };
        let expected =
            [("a".to_owned(), 3306, "u".to_owned()), ("b".to_owned(), 3307, "u".to_owned())];
        assert_eq!(hosts.iter().map(parts).collect::<Vec<_>>(), expected);
        assert!(hosts.iter().all(|host| host.get_database() == Some("shop")));
        assert!(hosts.iter().all(|host| matches!(host.get_ssl_mode(), MySqlSslMode::Disabled)));
        let asked = read("mysql://u:p@a/shop?ssl-mode=REQUIRED").unwrap();
        assert!(matches!(asked[0].get_ssl_mode(), MySqlSslMode::Required));
    }
}
