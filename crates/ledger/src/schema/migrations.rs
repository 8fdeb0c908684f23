//! The schema's history, compiled in.
//!
//! sqlx's macro `migrate!` finds the files by itself, but with sqlx's macros the database driver is
//! compiled a second time. This list is cheaper, and a test compares it with the folder.

use std::borrow::Cow;
use std::sync::LazyLock;

use sqlx::migrate::{Migration, MigrationType, Migrator};

/// Version, title and statements of each file in `migrations`, oldest first.
const FILES: &[(i64, &str, &str)] = &[
    (1, "ledger", include_str!("../../../../migrations/0001_ledger.sql")),
    (2, "strategies", include_str!("../../../../migrations/0002_strategies.sql")),
    (3, "lock table", include_str!("../../../../migrations/0003_lock_table.sql")),
    (4, "admin actions", include_str!("../../../../migrations/0004_admin_actions.sql")),
    (5, "redis queues", include_str!("../../../../migrations/0005_redis_queues.sql")),
    (6, "waiting room", include_str!("../../../../migrations/0006_waiting_room.sql")),
    (7, "running requests", include_str!("../../../../migrations/0007_running_requests.sql")),
    (8, "accepted fences", include_str!("../../../../migrations/0008_accepted_fences.sql")),
    (9, "accounts", include_str!("../../../../migrations/0009_accounts.sql")),
    (10, "operations", include_str!("../../../../migrations/0010_operations.sql")),
    (12, "events out", include_str!("../../../../migrations/0012_events_out.sql")),
    (13, "payments", include_str!("../../../../migrations/0013_payments.sql")),
    (14, "accounts elsewhere", include_str!("../../../../migrations/0014_accounts_elsewhere.sql")),
    (16, "waiting list", include_str!("../../../../migrations/0016_waiting_list.sql")),
    (17, "limit groups", include_str!("../../../../migrations/0017_limit_groups.sql")),
    (18, "shards", include_str!("../../../../migrations/0018_shards.sql")),
    (19, "places of items", include_str!("../../../../migrations/0019_places_of_items.sql")),
    (20, "kept rows", include_str!("../../../../migrations/0020_kept_rows.sql")),
    (21, "refunds", include_str!("../../../../migrations/0021_refunds.sql")),
    (22, "orders of buyers", include_str!("../../../../migrations/0022_orders_of_buyers.sql")),
    (23, "archive", include_str!("../../../../migrations/0023_archive.sql")),
    (24, "unit rows", include_str!("../../../../migrations/0024_unit_rows.sql")),
    (26, "draws", include_str!("../../../../migrations/0026_draws.sql")),
    (28, "lines", include_str!("../../../../migrations/0028_lines.sql")),
    (
        29,
        "extensions and returns",
        include_str!("../../../../migrations/0029_extensions_and_returns.sql"),
    ),
    (30, "currency", include_str!("../../../../migrations/0030_currency.sql")),
    (31, "products", include_str!("../../../../migrations/0031_products.sql")),
    (32, "webhook filters", include_str!("../../../../migrations/0032_webhook_filters.sql")),
    (33, "receipts", include_str!("../../../../migrations/0033_receipts.sql")),
    (34, "room openings", include_str!("../../../../migrations/0034_room_openings.sql")),
    (35, "parties", include_str!("../../../../migrations/0035_parties.sql")),
    (36, "one ledger", include_str!("../../../../migrations/0036_one_ledger.sql")),
    (37, "unused tables", include_str!("../../../../migrations/0037_unused_tables.sql")),
    (38, "archive ends", include_str!("../../../../migrations/0038_archive_ends.sql")),
    (39, "only webhooks", include_str!("../../../../migrations/0039_only_webhooks.sql")),
    (40, "shops", include_str!("../../../../migrations/0040_shops.sql")),
    (41, "erased users", include_str!("../../../../migrations/0041_erased_users.sql")),
    (42, "unpaid holds", include_str!("../../../../migrations/0042_unpaid_holds.sql")),
    (43, "token keys", include_str!("../../../../migrations/0043_token_keys.sql")),
    (44, "signed draws", include_str!("../../../../migrations/0044_signed_draws.sql")),
    (46, "foreign values", include_str!("../../../../migrations/0046_foreign_values.sql")),
    (47, "item creations", include_str!("../../../../migrations/0047_item_creations.sql")),
    (48, "replay refusals", include_str!("../../../../migrations/0048_replay_refusals.sql")),
    (49, "parts of restocks", include_str!("../../../../migrations/0049_parts_of_restocks.sql")),
    (50, "outbox items", include_str!("../../../../migrations/0050_outbox_items.sql")),
];

/// The migrations. sqlx writes the version and a checksum of each into the database, so a file that
/// was applied somewhere is never changed.
pub static MIGRATIONS: LazyLock<Migrator> = LazyLock::new(|| {
    let migrations = FILES.iter().map(|&(version, title, statements)| {
        let simple = MigrationType::Simple;
        Migration::new(version, Cow::Borrowed(title), simple, Cow::Borrowed(statements), false)
    });
    // Instances that start at once wait for each other by the lock in `migrate`: sqlx's own lock
    // waits without end, which MariaDB refuses.
    // A newer build may have migrated already: then there is nothing to do.
    Migrator {
        migrations: migrations.collect(),
        locking: false,
        ignore_missing: true,
        ..Migrator::DEFAULT
    }
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_on_the_list() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../migrations");
        let entries = std::fs::read_dir(folder).expect("the folder is there");
        let names = entries.map(|entry| entry.expect("an entry").file_name());
        let mut found: Vec<String> =
            names.map(|name| name.into_string().expect("a name in ASCII")).collect();
        found.sort();
        let listed = FILES
            .iter()
            .map(|(version, title, _)| format!("{version:04}_{}.sql", title.replace(' ', "_")));
        assert_eq!(found, listed.collect::<Vec<_>>());
    }
}
