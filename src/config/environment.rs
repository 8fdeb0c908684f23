//! The defaults of all settings with their variables, and the process's variables that look like ours and are no
//! settings.
//!
//! A platform makes variables for each service that runs beside this one, with the service's name before them: for one
//! named `seckill` they begin like settings. These are ignored. A name that is nearly a setting is refused, since its
//! value would silently not be used; so is any other name with our prefix.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::net::IpAddr;
use std::sync::LazyLock;

use toml::{Table, Value};

use crate::extensions;

/// The commented defaults of the core and of all extensions.
pub static DEFAULTS: LazyLock<String> = LazyLock::new(|| {
    let parts = extensions::ALL.iter().map(|extension| extension.defaults);
    std::iter::once(include_str!("defaults.toml")).chain(parts).collect::<Vec<_>>().join("\n")
});

/// The beginning of each setting's variable.
const PREFIX: &str = "SECKILL_";
/// Letters that may be missing, wrong or too many in a misspelt name.
const TYPOS_MAX: usize = 2;
/// Names that are tried for a setting with another name.
const OTHER_NAMES: [(&str, &str); 4] = [
    ("SECKILL_PORT", "SECKILL_HTTP_ADDR"),
    ("SECKILL_HOST", "SECKILL_HTTP_ADDR"),
    ("SECKILL_LISTEN", "SECKILL_HTTP_ADDR"),
    ("SECKILL_LOG_LEVEL", "SECKILL_LOG_FILTER"),
];

/// Variables with our prefix that are not settings: `make`, the tests and the private servers use them.
const OTHER_VARIABLES: [&str; 12] = [
    "SECKILL_WITH",
    "SECKILL_URL",
    "SECKILL_MYSQLD",
    "SECKILL_REDIS_SERVER",
    "SECKILL_ZOOKEEPER_CLASSPATH",
    "SECKILL_ETCD",
    "SECKILL_BROWSER",
    "SECKILL_CHROMEDRIVER",
    "SECKILL_PROMTOOL",
    "SECKILL_GALERA",
    "SECKILL_VITESS",
    "SECKILL_UNSTEADY",
];

/// The variables of this process. Those of others may be anything but text, and are left out.
///
/// # Errors
/// A setting, or another variable with our prefix, is not in UTF-8.
pub fn process_variables() -> Result<Vec<(String, String)>, String> {
    texts(env::vars_os())
}

fn texts(
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> Result<Vec<(String, String)>, String> {
    let settings = settings_of_variables();
    let mut all = Vec::new();
    for (name, value) in variables {
        let Ok(name) = name.into_string() else { continue };
        match value.into_string() {
            Ok(value) => all.push((name, value)),
            Err(_) if name.starts_with(PREFIX) || settings.contains(&name) => {
                return Err(format!("{name} is not in UTF-8"));
            }
            Err(_) => {}
        }
    }
    Ok(all)
}

/// The variables of all settings.
fn settings_of_variables() -> Vec<String> {
    let defaults: Table = toml::from_str(&DEFAULTS).expect("the defaults are TOML");
    variables_of(&defaults).into_keys().collect()
}

/// The path of each variable's setting: `SECKILL_HTTP_ADDR` → `["http", "addr"]`.
pub(super) fn variables_of(defaults: &Table) -> BTreeMap<String, Vec<String>> {
    let mut variables = BTreeMap::new();
    for (key, value) in defaults {
        if let Value::Table(section) = value {
            for inner in section.keys() {
                let name = format!("SECKILL_{key}_{inner}").to_uppercase();
                variables.insert(name, vec![key.clone(), inner.clone()]);
            }
        } else {
            variables.insert(format!("SECKILL_{key}").to_uppercase(), vec![key.clone()]);
        }
    }
    for url in ["database_url", "redis_url"] {
        variables.insert(url.to_uppercase(), vec![url.to_owned()]);
    }
    variables
}

/// Refuses a variable that is no setting and could be meant for one of `settings`.
pub(super) fn check_stranger<'s>(
    name: &str,
    value: &str,
    settings: impl Iterator<Item = &'s str>,
) -> Result<(), String> {
    let is_ours = name.starts_with(PREFIX);
    let is_known = name.starts_with("SECKILL_TEST_") || OTHER_VARIABLES.contains(&name);
    if is_known || (is_ours && is_made_by_a_platform(name, value)) {
        return Ok(());
    }
    let meant = nearest(name, settings);
    if !is_ours && meant.is_none() {
        return Ok(());
    }
    let meant = meant.map_or(String::new(), |meant| format!("; did you mean {meant}?"));
    Err(format!("{name} is set, but there is no such setting{meant}"))
}

/// Whether Kubernetes makes such a variable for a service whose name begins with ours (kubelet, `envvars.go`), or Docker
/// for a linked container (`links.go`).
fn is_made_by_a_platform(name: &str, value: &str) -> bool {
    let is_address = value.parse::<IpAddr>().is_ok();
    let is_port = value.parse::<u16>().is_ok();
    let is_url = ["tcp://", "udp://", "sctp://"].iter().any(|scheme| value.starts_with(scheme));
    let is_of_port = name.match_indices("_PORT_").any(|(at, word)| {
        let mut words = name[at + word.len()..].split('_');
        let number = words.next().is_some_and(|word| word.parse::<u16>().is_ok());
        number && words.next().is_some_and(|word| ["TCP", "UDP", "SCTP"].contains(&word))
    });
    (name.ends_with("_SERVICE_HOST") && is_address)
        || (name.contains("_SERVICE_PORT") && is_port)
        || (name.ends_with("_PORT") && is_url)
        || is_of_port
        || (name.ends_with("_NAME") && value.starts_with('/'))
        || name.contains("_ENV_")
}

/// The setting that a name was meant for, if it is nearly one: in other letters, with a few wrong ones, with its words in
/// another order, or without its section.
fn nearest<'s>(name: &str, settings: impl Iterator<Item = &'s str>) -> Option<&'s str> {
    let known = OTHER_NAMES.iter().find(|(other, _)| *other == name).map(|(_, setting)| *setting);
    if known.is_some() {
        return known;
    }
    let letters = letters(name);
    if !letters.starts_with("SEC") {
        return None;
    }
    let words = words(name);
    let last_words = name.strip_prefix(PREFIX).map(|rest| format!("_{rest}"));
    let distance = |setting: &str| {
        let is_rearranged = words == self::words(setting)
            || last_words.as_ref().is_some_and(|last| setting.ends_with(last));
        if is_rearranged {
            return 1;
        }
        strsim::damerau_levenshtein(&letters, &self::letters(setting))
    };
    let by_distance = settings.map(|setting| (distance(setting), setting)).min();
    by_distance.filter(|(distance, _)| *distance <= TYPOS_MAX).map(|(_, setting)| setting)
}

fn letters(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|it| it.to_ascii_uppercase()).collect()
}

fn words(name: &str) -> Vec<&str> {
    let mut words: Vec<_> = name.split('_').collect();
    words.sort_unstable();
    words
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::os::unix::ffi::OsStringExt;
    use std::path::{Path, PathBuf};

    use super::*;

    fn check(name: &str, value: &str) -> Result<(), String> {
        let settings = settings_of_variables();
        check_stranger(name, value, settings.iter().map(String::as_str))
    }

    #[test]
    fn no_setting_has_the_name_of_what_a_platform_makes() {
        for setting in settings_of_variables() {
            // Docker's `_NAME` is that of one setting, too (`identity.name`), which wins.
            for value in ["10.0.0.1", "80", "tcp://10.0.0.1:80"] {
                assert!(!is_made_by_a_platform(&setting, value), "{setting}={value}");
            }
        }
    }

    #[test]
    fn a_near_miss_names_the_setting_that_was_meant() {
        for (name, value, meant) in [
            ("SECKILL_HTP_ADDR", "x", "SECKILL_HTTP_ADDR"),
            ("SECKILL_HTTP_ADRR", "x", "SECKILL_HTTP_ADDR"),
            ("seckill_http_addr", "x", "SECKILL_HTTP_ADDR"),
            ("SECKILL__HTTP__ADDR", "x", "SECKILL_HTTP_ADDR"),
            ("SECKILL.HTTP.ADDR", "x", "SECKILL_HTTP_ADDR"),
            ("SECKILL-HTTP-ADDR", "x", "SECKILL_HTTP_ADDR"),
            ("SECKIL_HTTP_ADDR", "x", "SECKILL_HTTP_ADDR"),
            ("SECKILL_ADDR_HTTP", "x", "SECKILL_HTTP_ADDR"),
            ("SECKILL_POOL_MAX", "3", "SECKILL_MYSQL_POOL_MAX"),
            ("SECKILL_SECRETS", "x", "SECKILL_SECRET"),
            // By hand, unlike that of a platform.
            ("SECKILL_PORT", "8080", "SECKILL_HTTP_ADDR"),
            ("SECKILL_HOST", "0.0.0.0", "SECKILL_HTTP_ADDR"),
            ("SECKILL_LOG_LEVEL", "info", "SECKILL_LOG_FILTER"),
        ] {
            let refused = check(name, value).expect_err(name);
            assert!(refused.contains(&format!("did you mean {meant}?")), "{refused}");
            assert!(refused.starts_with(name), "{refused}");
        }
        let unlike = check("SECKILL_SOMETHING_ELSE", "1").expect_err("no setting");
        assert!(!unlike.contains("did you mean"), "{unlike}");
    }

    /// A folder may be exported for `scripts/run` and for the tests by the same line.
    #[test]
    fn what_scripts_and_private_servers_read_is_no_unknown_setting() {
        let mut found = BTreeSet::new();
        let mut left: Vec<PathBuf> = ["scripts", "crates/dev-servers/src"]
            .map(|folder| Path::new(env!("CARGO_MANIFEST_DIR")).join(folder))
            .to_vec();
        while let Some(path) = left.pop() {
            if path.is_dir() {
                left.extend(
                    fs::read_dir(&path).expect("a folder").map(|one| one.expect("a name").path()),
                );
                continue;
            }
            let text = fs::read(&path).expect("a readable file");
            let text = String::from_utf8_lossy(&text);
            let names = text.match_indices(PREFIX).map(|(at, _)| {
                let rest = &text[at..];
                let end = rest.find(|it: char| !it.is_ascii_uppercase() && it != '_');
                rest[..end.unwrap_or(rest.len())].to_owned()
            });
            found.extend(names.filter(|name| name != PREFIX));
        }
        assert!(found.len() > 20, "{found:?}");
        let settings = settings_of_variables();
        for name in found {
            let is_setting = settings.contains(&name);
            assert!(is_setting || check(&name, "x") == Ok(()), "{name} is not in OTHER_VARIABLES");
        }
    }

    #[test]
    fn a_setting_that_is_not_text_is_refused() {
        let read =
            |name: &str| texts([(name.into(), OsString::from_vec(vec![b'x', 0xff]))].into_iter());
        for name in ["DATABASE_URL", "REDIS_URL", "SECKILL_SECRET", "SECKILL_HTP_ADDR"] {
            let refused = read(name).expect_err(name);
            assert_eq!(refused, format!("{name} is not in UTF-8"));
        }
        assert!(read("LS_COLORS").expect("another's").is_empty());
    }
}
