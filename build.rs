//! Has the service compiled again when a page is added or removed: the compiler alone sees changes of known pages only.

fn main() {
    println!("cargo::rerun-if-changed=static");
}
