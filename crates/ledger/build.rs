//! Has the crate compiled again when a migration is added: the compiler alone sees changes of known files only.

fn main() {
    println!("cargo::rerun-if-changed=../../migrations");
}
