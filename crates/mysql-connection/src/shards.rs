//! The shards of a database: in which one the rows of an id are.
//!
//! One transaction writes rows of one shard. So a caller gathers work by shard before it is written together
//! ([`Shards::queue_of`]), chooses ids of one place for rows that are written together ([`beside`]), and refuses work over
//! two shards before anything is written ([`Shards::are_together`]). The engine has the last word: it refuses a
//! transaction that touches a second shard, so a list of shards that is out of date costs time, and no row.
//!
//! Today's only such engine is Vitess. The tables in shards lie in a keyspace of their own, by its vindex `hash`: one block
//! of DES with the key 0.

use std::ops::Range;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use des::Des;
use des::cipher::{BlockCipherEncrypt, KeyInit};
use sqlx::error::DatabaseError;
use sqlx::mysql::MySqlDatabaseError;
use sqlx::{Executor, MySqlConnection, Row};

use crate::statement::Read;

/// The keyspace of the tables in shards is the database with this behind its name.
const KEYSPACE_END: &str = "_items";
/// ER_PARSE_ERROR.
const PARSE_ERROR: u16 = 1064;
/// Ids whose places the engine is asked for, to compare them with ours.
const COMPARED: [i64; 4] = [1, 2, 4_096, 1 << 52];

/// Shards that were found. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Shards(Arc<RwLock<Found>>);

/// What is known of the shards.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Found {
    /// The database has none: all rows are in one place.
    #[default]
    None,
    /// Their ranges of places. While shards are split, the new ones stand beside the old ones.
    Ranges(Vec<Range<u128>>),
    /// The engine places ids in another way than we compute.
    Unknown,
}

impl Shards {
    /// Returns which of `queues` takes the work of an id. All work of one queue is of one shard. `None`: there are fewer
    /// queues than shards, so each id needs one of its own.
    pub fn queue_of(&self, id: i64, queues: usize) -> Option<usize> {
        let spread = |among: usize| {
            let number = usize::try_from(id).ok()?;
            number.checked_rem(among)
        };
        match &*self.found() {
            Found::None => spread(queues),
            Found::Ranges(ranges) => {
                let shards = ranges.len();
                let rest = spread(queues / shards)?;
                Some(shard_of(ranges, id)? + shards * rest)
            }
            Found::Unknown => None,
        }
    }

    /// Returns whether rows of these ids can be written by one transaction.
    pub fn are_together(&self, mut ids: impl Iterator<Item = i64>) -> bool {
        let Some(first) = ids.next() else { return true };
        match &*self.found() {
            Found::None => true,
            Found::Ranges(ranges) => {
                let shard = shard_of(ranges, first);
                ids.all(|id| shard_of(ranges, id) == shard)
            }
            Found::Unknown => ids.all(|id| id == first),
        }
    }

    /// The number of shards; 0 where all rows are in one place.
    pub fn count(&self) -> usize {
        match &*self.found() {
            Found::Ranges(ranges) => ranges.len(),
            Found::None | Found::Unknown => 0,
        }
    }

    /// Asks a vtgate for the shards.
    ///
    /// # Errors
    /// The vtgate's; what was known stays.
    pub async fn read(&self, connection: &mut MySqlConnection) -> sqlx::Result<()> {
        let listed = list(&mut *connection).await?;
        let keyspace = listed.keyspace();
        let mut ranges: Vec<_> = listed.in_keyspace().filter_map(range_of).collect();
        ranges.sort_unstable_by_key(|range| (range.start, range.end));
        let found = if ranges.is_empty() { Found::None } else { Found::Ranges(ranges) };
        if *self.found() == found {
            return Ok(());
        }
        let is_known = found == Found::None || places_agree(connection, &keyspace).await?;
        if !is_known {
            tracing::error!(
                keyspace,
                "rows are not placed by the vindex `hash`; those of different ids are not written together"
            );
        }
        let found = if is_known { found } else { Found::Unknown };
        self.set(found);
        Ok(())
    }

    fn set(&self, found: Found) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = found;
    }

    fn found(&self) -> std::sync::RwLockReadGuard<'_, Found> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The shards of a database, as a vtgate lists them: those that serve by its topology.
#[derive(Default)]
pub(crate) struct Listed {
    /// The keyspace of the connection.
    database: String,
    /// Of this keyspace and of that of the tables in shards, each as `KEYSPACE/SHARD`.
    pub(crate) names: Vec<String>,
}

impl Listed {
    /// The keyspace of the tables in shards.
    fn keyspace(&self) -> String {
        format!("{}{KEYSPACE_END}", self.database)
    }

    /// The names of its shards.
    fn in_keyspace(&self) -> impl Iterator<Item = &str> {
        let keyspace = self.keyspace();
        let shard = move |name: &'_ String| name.split_once('/').is_some_and(|at| at.0 == keyspace);
        let names = self.names.iter().filter(move |name| shard(name));
        names.filter_map(|name| Some(name.split_once('/')?.1))
    }
}

/// Lists the shards; none where the server is no vtgate.
pub(crate) async fn list(connection: &mut MySqlConnection) -> sqlx::Result<Listed> {
    let rows = match connection.fetch_all(sqlx::raw_sql("SHOW VITESS_SHARDS")).await {
        Err(sqlx::Error::Database(error)) if is_unknown_statement(&*error) => {
            return Ok(Listed::default());
        }
        answer => answer?,
    };
    let database = sqlx::query_scalar("SELECT CAST(DATABASE() AS CHAR)");
    let database: Option<String> = database.one(&mut *connection).await?;
    let mut listed = Listed { database: database.unwrap_or_default(), names: Vec::new() };
    let keyspaces = [listed.database.clone(), listed.keyspace()];
    for row in rows {
        let name: String = row.try_get_unchecked(0)?;
        if name.split_once('/').is_some_and(|at| keyspaces.iter().any(|keyspace| keyspace == at.0))
        {
            listed.names.push(name);
        }
    }
    Ok(listed)
}

/// Whether a server does not know a statement: it is no vtgate then, whatever version it names.
fn is_unknown_statement(error: &dyn DatabaseError) -> bool {
    let error = error.try_downcast_ref::<MySqlDatabaseError>();
    error.is_some_and(|error| error.number() == PARSE_ERROR)
}

/// Asks the engine where some ids have their places, and compares them with ours.
async fn places_agree(connection: &mut MySqlConnection, keyspace: &str) -> sqlx::Result<bool> {
    let ids = COMPARED.map(|id| id.to_string()).join(", ");
    let question =
        format!("SELECT id, hex_keyspace_id FROM `{keyspace}`.`hash` WHERE id IN ({ids})");
    let rows = connection.fetch_all(sqlx::raw_sql(&question)).await?;
    let places: Vec<String> =
        rows.iter().map(|row| row.try_get_unchecked(1)).collect::<sqlx::Result<_>>()?;
    let ours = COMPARED.map(|id| format!("{:016x}", place_of(id)));
    Ok(places.len() == ours.len() && ours.iter().all(|place| places.contains(place)))
}

/// The place of an id: its rows are in the shard whose range has this number.
fn place_of(id: i64) -> u64 {
    static CIPHER: LazyLock<Des> = LazyLock::new(|| Des::new(&[0; 8].into()));
    let mut block = id.to_be_bytes().into();
    CIPHER.encrypt_block(&mut block);
    u64::from_be_bytes(block.into())
}

/// Chooses an id from `id` on that lies beside another id in every split of up to 256 shards.
pub fn beside(id: i64, other: i64) -> i64 {
    let region = |id: i64| place_of(id) >> 56;
    let wanted = region(other);
    (id..).find(|id| region(*id) == wanted).unwrap_or(id)
}

/// The range of places of a shard, by its name such as `-80` or `80-c0`.
fn range_of(name: &str) -> Option<Range<u128>> {
    let (start, end) = name.split_once('-')?;
    let bound = |digits: &str, otherwise: u128| match digits.len() {
        0 => Some(otherwise),
        length @ 1..=16 => {
            let number = u128::from_str_radix(digits, 16).ok()?;
            Some(number << (64 - 4 * length))
        }
        _ => None,
    };
    Some(bound(start, 0)?..bound(end, 1 << 64)?)
}

/// The number of the narrowest shard that an id's place is in: while a shard is split, all places of a new one are
/// in one old one, too.
fn shard_of(ranges: &[Range<u128>], id: i64) -> Option<usize> {
    let place = u128::from(place_of(id));
    let with_it = ranges.iter().enumerate().filter(|(_, range)| range.contains(&place));
    with_it.min_by_key(|(_, range)| range.end - range.start).map(|(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shards(names: &[&str]) -> Shards {
        let ranges = names.iter().map(|name| range_of(name).expect("a range")).collect();
        Shards(Arc::new(RwLock::new(Found::Ranges(ranges))))
    }

    /// What vtgate 24.0.4 says of these ids.
    #[test]
    fn a_place_is_where_vitess_puts_it() {
        let said =
            [(1, 0x166b_40b4_4aba_4bd6), (5, 0x70bb_023c_810c_a87a), (6, 0xf098_480a_c4c4_be71)];
        for (id, place) in said {
            assert_eq!(place_of(id), place, "{id}");
        }
    }

    #[test]
    fn work_of_one_queue_is_of_one_shard() {
        let two = shards(&["-80", "80-"]);
        for queues in [2, 3, 4, 7] {
            for (one, other) in (1..200).zip(2..) {
                let is_one = two.queue_of(one, queues) == two.queue_of(other, queues);
                let both = [one, other].into_iter();
                assert!(!is_one || two.are_together(both), "{queues}: {one} and {other}");
            }
            assert!((1..200).all(|id| two.queue_of(id, queues) < Some(queues)));
        }
        assert_eq!(two.queue_of(5, 1), None, "one queue is not enough for two shards");
        assert_eq!(Shards::default().queue_of(5, 2), Some(1), "by the id's number");
    }

    /// Before the switch the old shards serve, and afterwards the new ones. The list has both meanwhile.
    #[test]
    fn a_split_changes_no_queue_that_is_of_one_shard() {
        let split = shards(&["-40", "-80", "40-80", "80-"]);
        let after = shards(&["-40", "40-80", "80-"]);
        for (one, other) in (1..200).zip(2..) {
            let both = || [one, other].into_iter();
            assert_eq!(split.are_together(both()), after.are_together(both()));
        }
    }

    #[test]
    fn ids_that_are_chosen_beside_each_other_stay_together() {
        let many: Vec<String> =
            (0..256).map(|at: u32| format!("{at:02x}-{:02x}", at + 1)).collect();
        let mut names: Vec<&str> = many.iter().map(String::as_str).collect();
        names[0] = "-01";
        names[255] = "ff-";
        let many = shards(&names);
        for id in [1, 77, 1 << 40] {
            let chosen = beside(id, 5);
            assert!(chosen >= id && many.are_together([chosen, 5].into_iter()));
        }
    }
}
