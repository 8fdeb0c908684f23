//! Sales that are drawn.

pub(crate) mod draw_lock;
pub mod draws;
