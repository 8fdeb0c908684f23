//! Where the service, its database and its secret are: variables first, then `.data/env`.

use std::collections::HashMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use crate::failure::CannotJudge;

/// The variables that a running `make run` writes down for a second terminal.
const KNOWN: [&str; 4] = ["SECKILL_URL", "DATABASE_URL", "REDIS_URL", "SECKILL_SECRET"];

/// Variables of the process, completed by a `.data/env` file when one is found.
#[derive(Debug, Default, Clone)]
pub struct Environment {
    file: HashMap<String, String>,
}

impl Environment {
    /// Reads `$SECKILL_DATA_DIR/env`, else the nearest `.data/env` from here upwards. A missing
    /// or unreadable file is no error: the variables may all be set.
    pub fn load() -> Self {
        let Some(path) = find() else {
            return Self::default();
        };
        let file = fs::read_to_string(&path).map(|text| parse(&text)).unwrap_or_default();
        Self { file }
    }

    /// The value of `name`; an empty variable counts as unset.
    pub fn get(&self, name: &str) -> Option<String> {
        env::var(name)
            .ok()
            .filter(|value| !value.is_empty())
            .or_else(|| self.file.get(name).cloned())
    }

    /// The address of the ledger's database.
    pub fn database_url(&self) -> Result<String, CannotJudge> {
        self.get("DATABASE_URL").ok_or_else(|| {
            CannotJudge(
                "which database holds the ledger? Start one with `make run`, or set DATABASE_URL"
                    .to_owned(),
            )
        })
    }

    /// Everything that a service of our own needs to work on the same servers: what the file
    /// says, also of servers that this program does not know.
    pub fn for_service(&self) -> HashMap<String, String> {
        let mut all = self.file.clone();
        let known = KNOWN.into_iter().filter_map(|name| Some((name.to_owned(), self.get(name)?)));
        all.extend(known);
        all
    }

    /// What a child process needs to see the same service.
    pub fn for_child(&self) -> Vec<(&'static str, String)> {
        KNOWN.into_iter().filter_map(|name| self.get(name).map(|value| (name, value))).collect()
    }
}

fn find() -> Option<PathBuf> {
    if let Ok(data_dir) = env::var("SECKILL_DATA_DIR") {
        let path = Path::new(&data_dir).join("env");
        if path.is_file() {
            return Some(path);
        }
    }
    let here = env::current_dir().ok()?;
    here.ancestors().map(|folder| folder.join(".data/env")).find(|path| path.is_file())
}

fn parse(text: &str) -> HashMap<String, String> {
    text.lines()
        .map(str::trim)
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| (name.trim().to_owned(), unquote(value.trim()).to_owned()))
        .collect()
}

fn unquote(value: &str) -> &str {
    for quote in ['"', '\''] {
        if let Some(inner) = value.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)) {
            return inner;
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_and_noise_is_skipped() {
        let read =
            parse("# made by a run\nSECKILL_URL=http://127.0.0.1:8080\n\nA = 'b=c'\nnoise\n");
        assert_eq!(read.get("SECKILL_URL").map(String::as_str), Some("http://127.0.0.1:8080"));
        assert_eq!(read.get("A").map(String::as_str), Some("b=c"));
        assert_eq!(read.len(), 2);
    }
}
