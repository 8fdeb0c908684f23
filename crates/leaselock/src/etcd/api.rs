//! The part of etcd's version 3 API that locks need, as its `rpc.proto` numbers it.
//!
//! Written by hand, so that a build needs no `protoc`. On the wire, a `oneof` is a set of optional
//! fields of which one is present.

use prost::Message;

pub(super) const RANGE: &str = "/etcdserverpb.KV/Range";
pub(super) const TXN: &str = "/etcdserverpb.KV/Txn";
pub(super) const WATCH: &str = "/etcdserverpb.Watch/Watch";
pub(super) const AUTHENTICATE: &str = "/etcdserverpb.Auth/Authenticate";
pub(super) const LEASE_GRANT: &str = "/etcdserverpb.Lease/LeaseGrant";
pub(super) const LEASE_REVOKE: &str = "/etcdserverpb.Lease/LeaseRevoke";
pub(super) const LEASE_KEEP_ALIVE: &str = "/etcdserverpb.Lease/LeaseKeepAlive";

/// Messages: the name and the type of each field, and its form and number on the wire.
macro_rules! messages {
    ($(
        $(#[$doc:meta])*
        $message:ident { $($(#[$about:meta])* $field:ident: $type:ty = ($($wire:tt)*),)* }
    )*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Message)]
        pub(super) struct $message {
            $($(#[$about])* #[prost($($wire)*)] pub(super) $field: $type,)*
        }
    )*};
}

messages! {
    /// A user's login.
    AuthenticateRequest {
        name: String = (string, tag = "1"),
        password: String = (string, tag = "2"),
    }

    AuthenticateResponse {
        token: String = (string, tag = "2"),
    }

    /// The state of the store when it answered.
    Header {
        revision: i64 = (int64, tag = "3"),
        raft_term: u64 = (uint64, tag = "4"),
    }

    KeyValue {
        key: Vec<u8> = (bytes = "vec", tag = "1"),
        create_revision: i64 = (int64, tag = "2"),
        mod_revision: i64 = (int64, tag = "3"),
        value: Vec<u8> = (bytes = "vec", tag = "5"),
    }

    /// Linearizable unless it says otherwise, which it does not here.
    RangeRequest {
        key: Vec<u8> = (bytes = "vec", tag = "1"),
        /// Empty: the one key.
        range_end: Vec<u8> = (bytes = "vec", tag = "2"),
        keys_only: bool = (bool, tag = "8"),
    }

    RangeResponse {
        header: Option<Header> = (message, optional, tag = "1"),
        kvs: Vec<KeyValue> = (message, repeated, tag = "2"),
    }

    PutRequest {
        key: Vec<u8> = (bytes = "vec", tag = "1"),
        value: Vec<u8> = (bytes = "vec", tag = "2"),
        /// 0: the key stays.
        lease: i64 = (int64, tag = "3"),
    }

    DeleteRangeRequest {
        key: Vec<u8> = (bytes = "vec", tag = "1"),
    }

    RequestOp {
        range: Option<RangeRequest> = (message, optional, tag = "1"),
        put: Option<PutRequest> = (message, optional, tag = "2"),
        delete: Option<DeleteRangeRequest> = (message, optional, tag = "3"),
    }

    ResponseOp {
        range: Option<RangeResponse> = (message, optional, tag = "1"),
    }

    /// Is the revision of `key` equal to this one? 0: there is no such key.
    Compare {
        /// 0: equal.
        result: i32 = (int32, tag = "1"),
        /// 2: the revision of the last change.
        target: i32 = (int32, tag = "2"),
        key: Vec<u8> = (bytes = "vec", tag = "3"),
        mod_revision: Option<i64> = (int64, optional, tag = "6"),
    }

    TxnRequest {
        compare: Vec<Compare> = (message, repeated, tag = "1"),
        success: Vec<RequestOp> = (message, repeated, tag = "2"),
        failure: Vec<RequestOp> = (message, repeated, tag = "3"),
    }

    TxnResponse {
        header: Option<Header> = (message, optional, tag = "1"),
        succeeded: bool = (bool, tag = "2"),
        responses: Vec<ResponseOp> = (message, repeated, tag = "3"),
    }

    LeaseRequest {
        /// Whole seconds, for a grant; the id, for a renewal and a revocation.
        first: i64 = (int64, tag = "1"),
        /// The id, for a grant.
        second: i64 = (int64, tag = "2"),
    }

    LeaseResponse {
        header: Option<Header> = (message, optional, tag = "1"),
        /// Whole seconds; 0 or less from a renewal: there is no such lease.
        ttl_seconds: i64 = (int64, tag = "3"),
    }

    WatchRequest {
        create: Option<WatchCreateRequest> = (message, optional, tag = "1"),
    }

    WatchCreateRequest {
        key: Vec<u8> = (bytes = "vec", tag = "1"),
        range_end: Vec<u8> = (bytes = "vec", tag = "2"),
        start_revision: i64 = (int64, tag = "3"),
        /// 0: do not tell of puts.
        filters: Vec<i32> = (int32, repeated, tag = "5"),
    }

    WatchResponse {
        canceled: bool = (bool, tag = "4"),
        events: Vec<Event> = (message, repeated, tag = "11"),
    }

    /// A deletion, since nothing else is asked for.
    Event {
        kv: Option<KeyValue> = (message, optional, tag = "2"),
    }
}
