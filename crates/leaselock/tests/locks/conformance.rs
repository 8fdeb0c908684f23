//! Named conformance tests: a module per kind of lock, in it a test per promise.

use std::collections::BTreeSet;

use leaselock::{Capabilities, KINDS};

/// Makes a module per kind, with a test per promise: `cargo test redis_token` runs one kind, and
/// `cargo test m3_` one promise on all kinds. A promise is a function of the calling module that
/// takes the kind. A further test fails when a kind that `of` applies to is not in `kinds`.
macro_rules! conformance {
    (
        of: $applies:expr,
        kinds: [$($module:ident: $kind:literal on $backend:literal,)*]
        $promises:tt
    ) => {
        #[test]
        fn every_kind_is_tested_by_name() {
            let tested = [$((stringify!($module), $backend, $kind),)*];
            crate::conformance::assert_all_are_tested(&tested, $applies);
        }

        $(mod $module {
            use crate::testbed::listed;

            crate::conformance::promises! { $backend, $kind, $promises }
        })*
    };
}

macro_rules! promises {
    (
        $backend:literal, $kind:literal,
        { one thread: [$($one:ident)*], two threads: [$($two:ident)*] }
    ) => {
        $(
            #[tokio::test]
            async fn $one() {
                super::$one(listed($backend, $kind)).await;
            }
        )*
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $two() {
                super::$two(listed($backend, $kind)).await;
            }
        )*
    };
}

pub(crate) use {conformance, promises};

/// Fails when a kind that `applies` to is on the list of the library and not in `tested`, or has a
/// module of another name.
pub fn assert_all_are_tested(
    tested: &[(&str, &str, &str)],
    applies: impl Fn(&Capabilities) -> bool,
) {
    let listed = KINDS.iter().filter(|kind| applies(kind));
    let listed: BTreeSet<_> = listed.map(|kind| (kind.backend, kind.kind)).collect();
    let named: BTreeSet<_> = tested.iter().map(|(_, backend, kind)| (*backend, *kind)).collect();
    assert_eq!(named, listed);
    for (module, backend, kind) in tested {
        assert_eq!(*module, format!("{backend}_{}", kind.replace('-', "_")));
    }
}

/// A kind without its tests is found, and so is a module of another name.
#[test]
fn a_kind_without_its_tests_is_found() {
    let first = &KINDS[0];
    let module = format!("{}_{}", first.backend, first.kind.replace('-', "_"));
    let is_first = |kind: &Capabilities| (kind.backend, kind.kind) == (first.backend, first.kind);
    let accepts = |tested: &[(&str, &str, &str)]| {
        std::panic::catch_unwind(|| assert_all_are_tested(tested, is_first)).is_ok()
    };
    assert!(accepts(&[(&module, first.backend, first.kind)]));
    assert!(!accepts(&[]));
    assert!(!accepts(&[("another", first.backend, first.kind)]));
}
