//! The state that the extractors of every route need.

use std::sync::Arc;

pub use lifecycle::Lifecycle;
pub use shop_domain::Clock;
pub use shop_metrics::Metrics;

use crate::address::Proxies;
use crate::body::BodyLimits;
use crate::cross_site::CorsOrigins;
use crate::rates::Rates;
use crate::session::{Authenticator, SessionCookie};
use crate::streams::Streams;

/// The parts that the extractors take, and that most handlers share.
pub struct Kit {
    pub authenticator: Authenticator,
    pub rates: Arc<Rates>,
    pub proxies: Proxies,
    pub cors: CorsOrigins,
    pub body_limits: BodyLimits,
    pub session_cookie: SessionCookie,
    pub streams: Streams,
    pub lifecycle: Lifecycle,
    pub clock: Clock,
    pub metrics: Metrics,
}

/// Declares the state of a group of routes: the kit and the parts of their own. A handler takes the parts that it needs, as
/// `State<Part>`. Clones of the state share everything.
#[macro_export]
macro_rules! routes_state {
    ($state:ident, $parts:ident { $($(#[$doc:meta])* $field:ident: $part:ty),* $(,)? }) => {
        /// What the handlers work with, beside the kit.
        pub struct $parts {
            $($(#[$doc])* pub $field: $part,)*
        }

        /// The state of the handlers. Clones share it.
        #[derive(Clone)]
        pub struct $state(std::sync::Arc<(std::sync::Arc<$crate::kit::Kit>, $parts)>);

        impl $state {
            /// Shares the kit and the parts.
            pub fn new(kit: std::sync::Arc<$crate::kit::Kit>, parts: $parts) -> Self {
                Self(std::sync::Arc::new((kit, parts)))
            }
        }

        $(impl axum::extract::FromRef<$state> for $part {
            fn from_ref(state: &$state) -> Self {
                state.0.1.$field.clone()
            }
        })*

        $crate::kit_parts!($state,
            authenticator: $crate::session::Authenticator,
            rates: std::sync::Arc<$crate::rates::Rates>,
            proxies: $crate::address::Proxies,
            cors: $crate::cross_site::CorsOrigins,
            body_limits: $crate::body::BodyLimits,
            session_cookie: $crate::session::SessionCookie,
            streams: $crate::streams::Streams,
            lifecycle: $crate::kit::Lifecycle,
            clock: $crate::kit::Clock,
            metrics: $crate::kit::Metrics,
        );
    };
}

/// Takes each part of the kit out of a state that [`routes_state!`] declares.
#[macro_export]
macro_rules! kit_parts {
    ($state:ident, $($field:ident: $part:ty),* $(,)?) => {
        $(impl axum::extract::FromRef<$state> for $part {
            fn from_ref(state: &$state) -> Self {
                state.0.0.$field.clone()
            }
        })*
    };
}
