//! One statement: sent, and its answer awaited no longer than
//! [`ANSWER_MAX`](crate::limits::ANSWER_MAX). Its errors are the database's, and a missing answer.

use sqlx::mysql::{MySqlArguments, MySqlRow};
use sqlx::query::{Query, QueryAs, QueryScalar};
use sqlx::{Encode, FromRow, MySql, MySqlExecutor, Type};

use crate::limits::answered;

/// Binds the values of a tuple to the question marks of a statement, in their order.
pub trait Binds<'q>: Sized {
    /// Binds a value to the next question mark.
    fn one_more(self, value: impl Encode<'q, MySql> + Type<MySql> + 'q) -> Self;

    /// Binds the values of a tuple to the next question marks.
    fn binds(self, values: impl Values<'q>) -> Self {
        values.bind_to(self)
    }
}

/// A tuple of values.
pub trait Values<'q> {
    /// Binds each value to the next question mark of `query`.
    fn bind_to<Q: Binds<'q>>(self, query: Q) -> Q;
}

macro_rules! values {
    ($($value:ident)+) => {
        impl<'q, $($value: Encode<'q, MySql> + Type<MySql> + 'q),+> Values<'q> for ($($value,)+) {
            #[expect(non_snake_case, reason = "a value has the name of its type")]
            fn bind_to<Q: Binds<'q>>(self, query: Q) -> Q {
                let ($($value,)+) = self;
                query$(.one_more($value))+
            }
        }
    };
}

values!(A B);
values!(A B C);
values!(A B C D);
values!(A B C D E);
values!(A B C D E F);
values!(A B C D E F G);
values!(A B C D E F G H);
values!(A B C D E F G H I J);

/// A statement that writes.
#[expect(async_fn_in_trait, reason = "each caller knows the type of the future")]
pub trait Write {
    /// Runs the statement.
    async fn run(self, on: impl MySqlExecutor<'_>) -> sqlx::Result<()>;

    /// Runs the statement and returns the number of rows that it changed.
    async fn changed(self, on: impl MySqlExecutor<'_>) -> sqlx::Result<u64>;

    /// Runs the statement and returns what it gave to `LAST_INSERT_ID`; `None` unless it changed one row.
    async fn noted(self, on: impl MySqlExecutor<'_>) -> sqlx::Result<Option<u64>>;
}

impl Write for Query<'_, MySql, MySqlArguments> {
    async fn run(self, on: impl MySqlExecutor<'_>) -> sqlx::Result<()> {
        answered(self.execute(on)).await.map(drop)
    }

    async fn changed(self, on: impl MySqlExecutor<'_>) -> sqlx::Result<u64> {
        answered(self.execute(on)).await.map(|done| done.rows_affected())
    }

    async fn noted(self, on: impl MySqlExecutor<'_>) -> sqlx::Result<Option<u64>> {
        let done = answered(self.execute(on)).await?;
        Ok((done.rows_affected() == 1).then(|| done.last_insert_id()))
    }
}

/// A statement that reads rows of the type `T`.
#[expect(async_fn_in_trait, reason = "each caller knows the type of the future")]
pub trait Read<T> {
    /// Reads all rows.
    async fn all(self, from: impl MySqlExecutor<'_>) -> sqlx::Result<Vec<T>>;

    /// Reads the first row, if there is one.
    async fn first(self, from: impl MySqlExecutor<'_>) -> sqlx::Result<Option<T>>;

    /// Reads the one row.
    async fn one(self, from: impl MySqlExecutor<'_>) -> sqlx::Result<T>;
}

/// Implements the traits for a kind of query; the kinds have no trait in common.
macro_rules! read {
    ($query:ty, $row:ty $(, $type:ident where $bound:ty)?) => {
        impl<'q $(, $type)?> Binds<'q> for $query {
            fn one_more(self, value: impl Encode<'q, MySql> + Type<MySql> + 'q) -> Self {
                self.bind(value)
            }
        }

        impl<'q $(, $type: Send + Unpin)?> Read<$row> for $query
        $(where $bound: for<'r> FromRow<'r, MySqlRow>)?
        {
            async fn all(self, from: impl MySqlExecutor<'_>) -> sqlx::Result<Vec<$row>> {
                answered(self.fetch_all(from)).await
            }

            async fn first(self, from: impl MySqlExecutor<'_>) -> sqlx::Result<Option<$row>> {
                answered(self.fetch_optional(from)).await
            }

            async fn one(self, from: impl MySqlExecutor<'_>) -> sqlx::Result<$row> {
                answered(self.fetch_one(from)).await
            }
        }
    };
}

read!(Query<'q, MySql, MySqlArguments>, MySqlRow);
read!(QueryAs<'q, MySql, T, MySqlArguments>, T, T where T);
read!(QueryScalar<'q, MySql, T, MySqlArguments>, T, T where (T,));

/// Returns the question marks and the values of `IN (...)`, or `None` for an empty list. The list is filled up with
/// its last value to one of a few lengths, so that each statement is prepared once.
///
/// A locking read by such a list names its index by `FORCE INDEX`, and reads a column that is not in the index. Without
/// either, MySQL and MariaDB scan a short table as a whole and wait for the rows of others.
pub fn in_list<T: Copy>(values: &[T]) -> Option<(String, impl Iterator<Item = T>)> {
    let last = *values.last()?;
    let length = values.len().next_power_of_two();
    let all = values.iter().copied().chain(std::iter::repeat(last)).take(length);
    Some((vec!["?"; length].join(", "), all))
}
