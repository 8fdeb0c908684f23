//! Types of the sale and the rules between them. No I/O, no async.
//!
//! Reading order: [`amount`] (units and money), [`id`], [`item`] (with the window of its sale and its draw), [`product`],
//! [`order`] (with the purchase that it begins as, and the state machine), [`payment`], [`outcome`] (the results of a purchase), [`waiting`]
//! (places in a waiting list), [`audit`] (the invariants), [`clock`], [`username`], [`trace`] (how long the parts of a
//! purchase took).

pub mod amount;
pub mod audit;
pub mod clock;
#[cfg(feature = "sqlx")]
pub mod columns;
pub mod id;
pub mod item;
pub mod order;
pub mod outcome;
pub mod payment;
pub mod product;
pub mod trace;
pub mod username;
pub mod waiting;

pub use amount::{Cents, Currency, Quantity};
pub use clock::Clock;
pub use id::{
    BuyerReference, EndpointId, ItemId, LimitGroupId, OrderId, ProductId, RequestKey, ShopId,
    UserId,
};
pub use item::{
    ArbiterMode, DrawBeacon, Item, ItemDraw, ItemEdit, ItemKind, ItemState, LimitGroup, NewDraw,
    NewItem, SaleWindow,
};
pub use order::{Order, OrderStatus, Purchase};
pub use outcome::{Doubt, LedgerError, Outcome, Refusal, Unavailable};
pub use product::{Product, Variant};
pub use trace::{Span, Trace};
pub use username::Username;
pub use waiting::{Place, WaitingStatus};
