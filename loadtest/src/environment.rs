//! Where the service, its database and its secret are: variables first, then `.data/env`.

use std::collections::HashMap;
use std::env;

use crate::failure::CannotJudge;

/// The variables that a running `make run` writes down for a second terminal.
const KNOWN: [&str; 4] = ["SECKILL_URL", "DATABASE_URL", "REDIS_URL", "SECKILL_SECRET"];

/// Variables of the process, completed by a `.data/env` file when one is found.
#[derive(Debug, Default, Clone)]
pub struct Environment {
    file: HashMap<String, String>,
    /// What holds whatever the variables and the file say.
    set: HashMap<String, String>,
}

impl Environment {
    /// Reads the file that a running `make run` writes. A missing file is no error: the variables may all be set.
    pub fn load() -> Result<Self, CannotJudge> {
        let file = env_file::read().map_err(|refused| CannotJudge(refused.to_string()))?;
        Ok(Self { file: file.into_iter().collect(), set: HashMap::new() })
    }

    /// The value of `name`; an empty variable counts as unset.
    pub fn get(&self, name: &str) -> Option<String> {
        let set = self.set.get(name).cloned();
        set.or_else(|| env::var(name).ok().filter(|value| !value.is_empty()))
            .or_else(|| self.file.get(name).cloned())
    }

    /// A copy with another value.
    #[must_use]
    pub fn with(&self, name: &str, value: String) -> Self {
        let mut changed = self.clone();
        changed.set.insert(name.to_owned(), value);
        changed
    }

    /// The address of the ledger's database.
    pub fn database_url(&self) -> Result<String, CannotJudge> {
        self.get("DATABASE_URL").ok_or_else(|| {
            CannotJudge::new(
                "which database holds the ledger? Start one with `make run`, or set DATABASE_URL",
            )
        })
    }

    /// Everything that the service's program needs to work on the same servers: what the file
    /// says, also of servers that this program does not know.
    pub fn for_service(&self) -> HashMap<String, String> {
        let mut all = self.file.clone();
        let known = KNOWN.into_iter().filter_map(|name| Some((name.to_owned(), self.get(name)?)));
        all.extend(known);
        all
    }
}
