//! Reads `DATABASE_URL`, which may name several hosts: `mysql://user:password@h1,h2:3307,h3/shop`.

use std::str::FromStr;

use sqlx::mysql::{MySqlConnectOptions, MySqlSslMode};

use crate::session;

/// Hosts that one URL may name.
const HOSTS_MAX: usize = 9;
/// The parameters of a URL that concern TLS, as sqlx reads them.
const TLS_PARAMETERS: [&str; 8] =
    ["ssl-mode", "sslmode", "ssl-ca", "sslca", "ssl-cert", "sslcert", "ssl-key", "sslkey"];

/// Reads the connect options of each host of a URL, in the order of the URL.
///
/// TLS is off unless the URL has `ssl-mode`: the driver's own default depends on how the program
/// was compiled and on what the server offers.
///
/// # Errors
/// A sentence for the operator; it never shows the URL, which holds a password.
pub fn read(url: &str) -> Result<Vec<MySqlConnectOptions>, String> {
    if url.is_empty() {
        return Err("DATABASE_URL is not set: mysql://user:password@host:port/database; or leave \
                    `seckill dev` running in this folder; or take the settings of an installed \
                    service: set -a; . /etc/seckill/seckill.env; set +a"
            .to_owned());
    }
    let parameters = url.split_once('?').map_or("", |(_, parameters)| parameters);
    let names = parameters.split('&').map(|pair| pair.split('=').next().unwrap_or_default());
    let mut chosen = false;
    for name in names {
        chosen |= matches!(name, "ssl-mode" | "sslmode");
        if name.starts_with("ssl") && !TLS_PARAMETERS.contains(&name) {
            return Err(format!(
                "DATABASE_URL has the unknown parameter {name:?}; those of TLS are ssl-mode, ssl-ca, ssl-cert and ssl-key"
            ));
        }
    }
    let urls = one_each(url)?;
    let several = urls.len() > 1;
    urls.iter()
        .map(|url| {
            let options = MySqlConnectOptions::from_str(url)
                .map_err(|error| format!("DATABASE_URL cannot be read: {error}"))?;
            if options.get_database().is_none_or(str::is_empty) {
                return Err("DATABASE_URL names no database: append /seckill".to_owned());
            }
            if several && options.get_socket().is_some() {
                return Err(
                    "DATABASE_URL names several hosts and a socket; a socket is one server"
                        .to_owned(),
                );
            }
            let options = session::by_the_driver(options);
            Ok(if chosen { options } else { options.ssl_mode(MySqlSslMode::Disabled) })
        })
        .collect()
}

/// The host and port of connect options, or their socket, for people.
pub fn name(options: &MySqlConnectOptions) -> String {
    match options.get_socket() {
        Some(socket) => socket.display().to_string(),
        None => format!("{}:{}", options.get_host(), options.get_port()),
    }
}

/// Splits a URL with several hosts into one URL for each.
fn one_each(url: &str) -> Result<Vec<String>, String> {
    let Some((scheme, rest)) = url.split_once("://") else {
        // The driver says what is wrong with it.
        return Ok(vec![url.to_owned()]);
    };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    // A password may contain a slash only as %2F, and an @ in it is before the last one.
    let (authority, tail) = rest.split_at(end);
    let (user, hosts) = match authority.rsplit_once('@') {
        Some((user, hosts)) => (format!("{user}@"), hosts),
        None => (String::new(), authority),
    };
    let hosts: Vec<&str> = hosts.split(',').map(str::trim).collect();
    if hosts.len() > 1 && hosts.iter().any(|host| host.is_empty()) {
        return Err("DATABASE_URL has an empty host between two commas".to_owned());
    }
    if hosts.len() > HOSTS_MAX {
        return Err(format!("DATABASE_URL names more than {HOSTS_MAX} hosts"));
    }
    Ok(hosts.iter().map(|host| format!("{scheme}://{user}{host}{tail}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(url: &str) -> Vec<String> {
        read(url).expect("a good URL").iter().map(name).collect()
    }

    #[test]
    fn one_host_or_several_are_read_in_their_order() {
        assert_eq!(names("mysql://u:p@db/shop"), ["db:3306"]);
        assert_eq!(
            names("mysql://u:p@a,b:3307,[::1]:3308/shop"),
            ["a:3306", "b:3307", "[::1]:3308"]
        );
        assert_eq!(names("mysql://u:p@localhost/shop?socket=/run/m.sock"), ["/run/m.sock"]);
        let all = read("mysql://u:a%2Cb@a,b/shop").expect("a good URL");
        assert!(
            all.iter()
                .all(|options| options.get_username() == "u"
                    && options.get_database() == Some("shop"))
        );
    }

    #[test]
    fn a_bad_url_is_said_in_a_sentence_without_its_password() {
        for (url, word) in [
            ("", "is not set"),
            ("mysql://u:geheim@db", "names no database"),
            ("mysql://u:geheim@a,,b/shop", "empty host"),
            ("mysql://u:geheim@a,b/shop?socket=/run/m.sock", "a socket is one server"),
            ("mysql://u:geheim@a:x/shop", "cannot be read"),
            ("mysql://u:geheim@a/shop?ssl_mode=REQUIRED", "unknown parameter"),
            ("mysql://u:geheim@a/shop?ssl-mode=SOMETIMES", "cannot be read"),
            ("mysql://u:geheim@1,2,3,4,5,6,7,8,9,10/shop", "more than 9"),
        ] {
            let sentence = read(url).expect_err(url);
            assert!(sentence.contains(word) && !sentence.contains("geheim"), "{sentence}");
        }
    }

    #[test]
    fn tls_is_off_unless_the_url_asks_for_it() {
        let mode = |url: &str| read(url).expect("a good URL")[0].get_ssl_mode();
        assert!(matches!(mode("mysql://u@db/shop"), MySqlSslMode::Disabled));
        assert!(matches!(mode("mysql://u@db/shop?charset=utf8mb4"), MySqlSslMode::Disabled));
        let verified = "mysql://u@db/shop?ssl-mode=VERIFY_IDENTITY&ssl-ca=/etc/ca.pem";
        assert!(matches!(mode(verified), MySqlSslMode::VerifyIdentity));
        assert!(matches!(mode("mysql://u@a,b/shop?ssl-mode=REQUIRED"), MySqlSslMode::Required));
    }
}
