//! Loads the settings: defaults, then a file, then the environment.

use std::collections::BTreeMap;
use std::path::Path;

use toml::{Table, Value};

use super::Config;
use super::check::check_numbers;
use super::environment::{DEFAULTS, check_stranger, variables_of};
use crate::extensions;
use settings::Sections;

/// Sections of extensions of which the core reads a key, too.
const READ_BY_BOTH: [&str; 2] = ["events", "payment"];

impl Config {
    /// Reads the defaults, `file` if given, and the variables `environment`; checks relations.
    ///
    /// # Errors
    /// A sentence with the key or variable that is wrong.
    pub fn load(
        file: Option<&Path>,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, String> {
        let mut table: Table = toml::from_str(&DEFAULTS).expect("the defaults are TOML");
        let variables = variables_of(&table);
        if let Some(path) = file {
            overlay_file(&mut table, path)?;
        }
        for (name, text) in environment {
            overlay_variable(&mut table, &variables, &name, &text)?;
        }
        check_numbers(&table)?;
        let config = Self::of_table(table)?;
        config.check()?;
        config.check_texts()?;
        for extension in extensions::ALL {
            (extension.check)(&config.sections)?;
        }
        Ok(config)
    }

    /// Reads the sections of the core, and keeps all for the extensions.
    pub(super) fn of_table(table: Table) -> Result<Self, String> {
        let mut own = table.clone();
        for extension in
            extensions::ALL.iter().filter(|extension| !READ_BY_BOTH.contains(&extension.name))
        {
            own.remove(extension.name);
        }
        let config: Self = Value::Table(own)
            .try_into()
            .map_err(|error| format!("the settings do not fit: {error}"))?;
        Ok(Self { sections: Sections::new(table), ..config })
    }
}

fn overlay_variable(
    table: &mut Table,
    variables: &BTreeMap<String, Vec<String>>,
    name: &str,
    text: &str,
) -> Result<(), String> {
    let Some(path) = variables.get(name) else {
        return check_stranger(name, text, variables.keys().map(String::as_str));
    };
    let slot = match path.as_slice() {
        [key] => table.get_mut(key),
        [section, key] => table.get_mut(section).and_then(|section| section.get_mut(key)),
        _ => None,
    };
    let slot = slot.expect("variables_of names existing keys");
    // A value from a file often ends with a line break, and no setting does. A secret stays as it is: it signs.
    let text = if name.contains("SECRET") { text } else { text.trim_end_matches(['\r', '\n']) };
    let not = |kind: &str| format!("{name} must be {kind}, not {text:?}");
    *slot = match slot {
        Value::Integer(_) => Value::Integer(text.parse().map_err(|_| not("a whole number"))?),
        Value::Float(_) => Value::Float(text.parse().map_err(|_| not("a number"))?),
        Value::Boolean(_) => Value::Boolean(text.parse().map_err(|_| not("true or false"))?),
        _ => Value::String(text.to_owned()),
    };
    Ok(())
}

fn overlay_file(table: &mut Table, path: &Path) -> Result<(), String> {
    let unreadable =
        |why: &dyn std::fmt::Display| format!("the file {} cannot be used: {why}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| unreadable(&error))?;
    let file: Table = toml::from_str(&text).map_err(|error| {
        // The whole error shows the line, which may have a secret.
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        unreadable(&format_args!("line {line}: {}", error.message()))
    })?;
    for (key, value) in file {
        match (table.get_mut(&key), value) {
            (Some(Value::Table(section)), Value::Table(overrides)) => {
                section.extend(overrides);
            }
            (_, value) => {
                table.insert(key, value);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::RuntimeCount;

    fn load(pairs: &[(&str, &str)]) -> Result<Config, String> {
        let pairs = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        Config::load(None, pairs)
    }

    #[test]
    fn the_number_of_runtimes_may_be_that_of_the_processors() {
        let runtimes = |text: &str| load(&[("SECKILL_HTTP_RUNTIMES", text)]);
        let number = |text: &str| runtimes(text).expect("good settings").http.runtimes;
        assert_eq!(number("0"), RuntimeCount::Number(0));
        assert_eq!(number("3").get(), 3);
        assert_eq!(number("processors"), RuntimeCount::Processors);
        assert_eq!(load(&[]).expect("defaults").http.runtimes, RuntimeCount::Processors);
        assert!(number("processors").get() > 0);
        for wrong in ["-1", "many", ""] {
            let error = runtimes(wrong).expect_err("refused");
            assert!(error.contains("runtimes") && error.contains("processors"), "{error}");
        }
        let table: Table = toml::from_str("runtimes = 2").expect("TOML");
        let number = table["runtimes"].clone().try_into::<RuntimeCount>();
        assert_eq!(number, Ok(RuntimeCount::Number(2)));
    }

    #[test]
    fn a_line_break_at_the_end_is_no_part_of_a_value() {
        let ended =
            load(&[("SECKILL_MYSQL_POOL_MAX", "3\n"), ("SECKILL_REDIS_URL", "redis://a\r\n")]);
        let ended = ended.expect("the line break is none of the value");
        assert_eq!(ended.mysql.pool_max, 3);
        assert_eq!(ended.redis_url.reveal(), "redis://a");
    }

    #[test]
    fn a_mistake_in_the_file_is_said_without_its_secrets() {
        let path = std::env::temp_dir().join(format!("seckill-load-{}.toml", std::process::id()));
        std::fs::write(&path, "[http]\ndatabase_url = \"mysql://u:geheim@db/shop\n")
            .expect("written");
        let error = Config::load(Some(&path), []).expect_err("a quote is missing");
        std::fs::remove_file(&path).expect("removed");
        assert!(error.contains("line 2: ") && !error.contains("geheim"), "{error}");
    }

    #[test]
    fn contradictions_name_both_keys() {
        let error = load(&[("SECKILL_LIFECYCLE_DRAIN_MS", "1000")]).expect_err("drain too short");
        assert!(error.contains("lifecycle.drain_ms") && error.contains("purchase.deadline_ms"));
    }

    /// A statement that is given up leaves a session with its locks as long as it waits.
    #[test]
    fn no_row_is_waited_for_longer_than_an_answer() {
        let waits = |seconds| {
            let deadline = ("SECKILL_PURCHASE_DEADLINE_MS", "9000");
            load(&[("SECKILL_MYSQL_LOCK_WAIT_TIMEOUT_SECONDS", seconds), deadline])
        };
        assert_eq!(waits("5").expect("good settings").mysql.lock_wait_timeout_seconds, 5);
        let error = waits("6").expect_err("longer than an answer is waited for");
        assert!(error.contains("mysql.lock_wait_timeout_seconds must be at most 5"), "{error}");
    }
}
