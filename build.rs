//! Has the service compiled again when a page is added or removed: the compiler alone sees changes of known pages only.
//! Makes the documents pages of the service, if the feature `book` is on.

use std::path::Path;

fn main() -> std::io::Result<()> {
    println!("cargo::rerun-if-changed=static");
    #[cfg(feature = "book")]
    let pages = book::pages(Path::new(env!("CARGO_MANIFEST_DIR")), env!("CARGO_PKG_REPOSITORY"))?;
    #[cfg(not(feature = "book"))]
    let pages = "&[]";
    let folder = std::env::var("OUT_DIR").expect("cargo names the folder");
    std::fs::write(Path::new(&folder).join("book.rs"), pages)
}
