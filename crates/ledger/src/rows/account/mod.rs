//! People: users, guests of other shops, operators, their sessions, and the traces of erased people.

pub mod actions;
pub mod erased;
pub mod guests;
pub mod operators;
pub mod sessions;
pub mod shops;
pub mod subjects;
pub mod users;
