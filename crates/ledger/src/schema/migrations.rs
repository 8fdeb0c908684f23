//! The schema's history, compiled in.
//!
//! sqlx's macro `migrate!` would do it, but with sqlx's macros the database driver is compiled a second time.

use std::borrow::Cow;
use std::sync::LazyLock;

use rust_embed::Embed;
use sqlx::migrate::{Migration, MigrationType, Migrator};

/// The files, each named by its version and title.
#[derive(Embed)]
#[folder = "../../migrations"]
struct Files;

/// The migrations, oldest first. sqlx writes the version and a checksum of each into the database, so a file that
/// was applied somewhere is never changed.
pub static MIGRATIONS: LazyLock<Migrator> = LazyLock::new(|| {
    let mut migrations: Vec<Migration> = Files::iter().filter_map(|name| read(&name)).collect();
    migrations.sort_unstable_by_key(|migration| migration.version);
    // Instances that start at once wait for each other by the lock in `migrate`: sqlx's own lock
    // waits without end, which MariaDB refuses.
    // A newer build may have migrated already: then there is nothing to do.
    Migrator {
        migrations: migrations.into(),
        locking: false,
        ignore_missing: true,
        ..Migrator::DEFAULT
    }
});

fn read(name: &str) -> Option<Migration> {
    let (version, title) = name.strip_suffix(".sql")?.split_once('_')?;
    let statements = String::from_utf8(Files::get(name)?.data.into_owned()).ok()?;
    Some(Migration::new(
        version.parse().ok()?,
        Cow::Owned(title.replace('_', " ")),
        MigrationType::Simple,
        Cow::Owned(statements),
        false,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_a_migration() {
        for name in Files::iter() {
            assert!(read(&name).is_some(), "{name}");
        }
        assert!(MIGRATIONS.iter().count() > 40);
    }
}
