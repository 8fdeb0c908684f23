//! The errors by which a vtgate of Vitess says that the primary of a shard cannot be reached now: it is being replaced,
//! its MySQL server is gone, or its tablet has taken the transaction back.
//!
//! They count as a lost connection: before COMMIT nothing was written, and the whole transaction may be tried again. At
//! COMMIT the outcome is unknown, because the tablet may have sent it before it lost its server.
//!
//! After some of them, and after a deadlock, vtgate has rolled back and takes what follows as statements outside of a
//! transaction, and answers a COMMIT as if it had committed something. So each transaction ends with its first error.

/// The number that means any error.
const ANY: u16 = 1105;

/// The numbers of a client whose server is gone. No server gives them by itself: the tablet is the client.
const OF_A_CLIENT: [u16; 5] = [2002, 2003, 2006, 2012, 2013];

/// What stands in the errors that have no number of their own.
const WORDS: [&str; 7] = [
    "code = Unavailable",
    "operation not allowed in state",
    "wrong tablet type",
    "no healthy tablet available",
    "primary is not serving",
    // The transaction is lost, and then every statement but ROLLBACK is refused.
    "VT15001",
    "VT09032",
];

/// Returns whether an error with this number and text is one of them.
pub(super) fn is_out_of_service(number: u16, message: &str) -> bool {
    OF_A_CLIENT.contains(&number)
        || (number == ANY && WORDS.iter().any(|words| message.contains(words)))
}

/// Returns whether an error says that a transaction has touched a second shard, where one alone is allowed. Vitess has rolled
/// it back. Items were placed otherwise than we knew, as after a split of shards, so another try may be of one shard.
pub(super) fn is_over_shards(message: &str) -> bool {
    message.contains("multi-db transaction attempted")
}

#[cfg(test)]
mod tests {
    use super::super::Fault;
    use super::super::new_id::is_of_primary;

    /// What Vitess 24.0.4 said when its MySQL server was killed or frozen, or ended a connection.
    const SAID: [(u16, &str, Fault); 13] = [
        (
            2006,
            "target: seckill.0.primary: vttablet: rpc error: code = Unavailable desc = conn 38: Write(packet) failed: write: broken pipe (errno 2006) (sqlstate HY000) (CallerID: userData1): Sql: \"commit\", BindVars: {}",
            Fault::Connection,
        ),
        (
            2013,
            "target: seckill.0.primary: vttablet: rpc error: code = Canceled desc = EOF (errno 2013) (sqlstate HY000) (CallerID: userData1): Sql: \"commit\", BindVars: {}",
            Fault::Connection,
        ),
        (
            1105,
            "target: seckill.0.primary: no healthy tablet available for 'keyspace:\"seckill\" shard:\"0\" tablet_type:PRIMARY'",
            Fault::Connection,
        ),
        (
            1105,
            "target: seckill.0.primary: vttablet: rpc error: code = Code(17) desc = operation not allowed in state SHUTTING_DOWN",
            Fault::Connection,
        ),
        (
            1105,
            "VT15001: transaction error, issue ROLLBACK and retry the transaction: target: seckill.0.primary: vttablet: rpc error: code = Code(17) desc = operation not allowed in state NOT_SERVING",
            Fault::Connection,
        ),
        (
            1105,
            "VT09032: previous transaction failed. Issue a ROLLBACK to resolve the failure.",
            Fault::Connection,
        ),
        (
            1317,
            "target: seckill.0.primary: vttablet: rpc error: code = Aborted desc = transaction 1795917989167537612: ended at 2026-11-29 02:19:13.232 UTC (unlocked closed connection) (CallerID: userData1)",
            Fault::Connection,
        ),
        (
            1317,
            "multi-db transaction attempted: [target:{keyspace:\"seckill_items\" shard:\"-80\" tablet_type:PRIMARY} transaction_id:1795929058223496111]",
            Fault::Transient,
        ),
        (
            1213,
            "target: seckill.0.primary: vttablet: rpc error: code = Aborted desc = Deadlock found when trying to get lock; try restarting transaction (errno 1213) (sqlstate 40001) (CallerID: userData1)",
            Fault::Transient,
        ),
        (
            3819,
            "target: seckill.0.primary: vttablet: rpc error: code = Unknown desc = Check constraint 't_chk_1' is violated. (errno 3819) (sqlstate HY000) (CallerID: userData1)",
            Fault::CheckViolated,
        ),
        (
            1062,
            "target: seckill.0.primary: vttablet: rpc error: code = AlreadyExists desc = Duplicate entry '5' for key 'users.PRIMARY' (errno 1062) (sqlstate 23000) (CallerID: userData1): Sql: \"insert into users(id, username) values (:v1 /* INT64 */, :v2 /* VARCHAR */)\", BindVars: {v1: \"type:INT64 value:\\\"5\\\"\"v2: \"type:VARCHAR value:\\\"a name\\\"\"}",
            Fault::Duplicate,
        ),
        (1105, "cannot parse int64 from \"18446744073709551615\": overflow", Fault::Other),
        (
            1105,
            "target: seckill.0.primary: vttablet: rpc error: code = Unknown desc = unknown (errno 1105) (sqlstate HY000) (CallerID: userData1): Sql: \"select :v1 from dual\", BindVars: {v1: \"type:VARCHAR value:\\\"VT15001\\\"\"}",
            Fault::Other,
        ),
    ];

    #[test]
    fn what_a_vtgate_says_is_sorted() {
        for (number, message, fault) in SAID {
            assert_eq!(Fault::of_answer(number, message), fault, "{message}");
            assert!(fault != Fault::Duplicate || is_of_primary(message), "{message}");
        }
    }
}
