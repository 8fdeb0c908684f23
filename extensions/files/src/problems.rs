//! The types of problem of files.

pub use web::problems::*;

web::problem_types! {
    INVALID_TABLE: 422 "invalid_table",
        "Send CSV with a line of column names; faults lists each error: the cell, its text, and the correction.";
}
