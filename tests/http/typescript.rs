//! The TypeScript client: its types are those of the API, and its example sells in a page of another
//! shop.

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/typescript")
}

/// A program of the client's packages; says why not when they are not installed.
pub fn tool(name: &str) -> Option<Command> {
    let program = root().join("node_modules/.bin").join(name);
    let is_usable = program.exists() && Command::new("node").arg("--version").output().is_ok();
    if !is_usable {
        println!("left out: run npm ci in clients/typescript to check the TypeScript client");
        return None;
    }
    let mut command = Command::new(program);
    command.current_dir(root());
    Some(command)
}

/// Builds the client and its example; `None` when the packages are not installed.
pub fn build() -> Option<PathBuf> {
    let output = tool("tsc")?.output().expect("the compiler runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}");
    Some(root())
}

#[test]
fn the_committed_types_are_those_of_the_api() {
    let Some(mut generator) = tool("openapi-typescript") else { return };
    let folder = std::env::temp_dir().join(crate::support::unique("openapi"));
    std::fs::create_dir_all(&folder).expect("a folder");
    let (document, fresh) = (folder.join("openapi.json"), folder.join("schema.ts"));
    let text = seckill::http::openapi().to_pretty_json().expect("JSON");
    std::fs::write(&document, text).expect("written");
    let output = generator.arg(&document).arg("--output").arg(&fresh).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let fresh = std::fs::read_to_string(fresh).expect("types");
    let committed = std::fs::read_to_string(root().join("src/schema.ts")).expect("types");
    std::fs::remove_dir_all(folder).expect("removed");
    assert!(fresh == committed, "scripts/typescript-client writes src/schema.ts again");
}

#[test]
fn each_operation_has_an_id_of_its_own() {
    let document = serde_json::to_value(seckill::http::openapi()).expect("JSON");
    let mut ids = std::collections::BTreeSet::new();
    for (path, item) in document["paths"].as_object().expect("paths") {
        for (method, operation) in item.as_object().expect("operations") {
            let id = operation["operationId"].as_str().expect("an id").to_owned();
            assert!(ids.insert(id.clone()), "{method} {path}: {id} comes twice");
        }
    }
    assert!(ids.contains("get_items_id"), "{ids:?}");
}

#[test]
fn the_lock_file_names_no_registry() {
    let lock = std::fs::read_to_string(root().join("package-lock.json")).expect("a lock file");
    assert!(!lock.contains("\"resolved\""), "see .npmrc");
}
