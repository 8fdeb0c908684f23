//! Each dependency that a manifest names is used by that package's code: an unused one costs every build time.

use std::fs;
use std::process::Command;

use toml::{Table, Value};

use crate::support::prelude::*;
use crate::support::project;

/// Dependencies that no code names; the manifest says why it has them. `package/dependency`.
const NOT_NAMED_IN_CODE: &[&str] =
    &["seckill/byteorder", "seckill/idna_adapter", "seckill/num-traits"];

#[test]
fn every_dependency_is_used() {
    let root = &*project();
    let workspace = manifest(root);
    let mut unused = Vec::new();
    let mut inherited = BTreeSet::new();
    let folders = packages(root, &workspace);
    assert!(folders.len() > 3, "the workspace has members: {folders:?}");
    for folder in &folders {
        let others: Vec<_> = folders.iter().filter(|other| *other != folder).collect();
        let manifest = manifest(folder);
        let package = manifest["package"]["name"].as_str().expect("a name").to_owned();
        let own = code(folder, &["src", "build.rs"], &others);
        let all = code(folder, &[""], &others);
        for (section, code) in
            [("dependencies", &own), ("dev-dependencies", &all), ("build-dependencies", &own)]
        {
            let table = manifest.get(section).and_then(Value::as_table);
            for (name, value) in table.into_iter().flatten() {
                if value.get("workspace").is_some() {
                    inherited.insert(name.clone());
                }
                let excused = NOT_NAMED_IN_CODE.contains(&format!("{package}/{name}").as_str());
                if excused == is_named(code, name) {
                    unused.push(format!("{package}: {name} in [{section}]"));
                }
            }
        }
    }
    let shared = workspace["workspace"]["dependencies"].as_table().expect("a table");
    let idle = shared.keys().filter(|name| !inherited.contains(*name));
    unused.extend(idle.map(|name| format!("workspace: {name}")));
    assert!(unused.is_empty(), "remove from the manifests: {unused:#?}");
}

fn manifest(folder: &Path) -> Table {
    let text = fs::read_to_string(folder.join("Cargo.toml")).expect("a manifest");
    text.parse().expect("a manifest is TOML")
}

/// The folder of each package of the workspace, the root's own included.
fn packages(root: &Path, workspace: &Table) -> Vec<PathBuf> {
    let members = workspace["workspace"]["members"].as_array().expect("a list");
    let mut folders = vec![root.to_owned()];
    for member in members.iter().filter_map(Value::as_str) {
        let Some(parent) = member.strip_suffix("/*") else {
            folders.push(root.join(member));
            continue;
        };
        let found = fs::read_dir(root.join(parent)).expect("a folder of crates").flatten();
        let found = found.map(|entry| entry.path());
        folders.extend(found.filter(|path| path.join("Cargo.toml").exists()));
    }
    folders
}

/// The text of every Rust file at `places` below `folder`, without the folders of other packages and of artefacts.
fn code(folder: &Path, places: &[&str], others: &[&PathBuf]) -> String {
    let mut text = String::new();
    let mut open: Vec<PathBuf> = places.iter().map(|place| folder.join(place)).collect();
    while let Some(path) = open.pop() {
        let elsewhere = others.iter().any(|other| path == **other && !folder.starts_with(other));
        if elsewhere || path.ends_with("target") {
            continue;
        }
        if let Ok(entries) = fs::read_dir(&path) {
            open.extend(entries.flatten().map(|entry| entry.path()));
        } else if path.is_file() && path.extension().is_some_and(|kind| kind == "rs") {
            text += &fs::read_to_string(&path).expect("a readable file");
        }
    }
    text
}

/// Whether `code` names the crate `name` in a path, a macro or an import.
fn is_named(code: &str, name: &str) -> bool {
    let name = name.replace('-', "_");
    let ends_in_word = |text: &str| text.ends_with(|c: char| c.is_alphanumeric() || c == '_');
    code.match_indices(&name).any(|(at, _)| {
        let (before, after) = (&code[..at], &code[at + name.len()..]);
        // `tokio::time::` does not name the crate `time`.
        let inside_path = before.strip_suffix("::").is_some_and(ends_in_word);
        let is_path = ["::", "!(", ";", " as ", " = "].iter().any(|end| after.starts_with(end));
        is_path && !inside_path && !ends_in_word(before)
    })
}

#[test]
fn a_crate_is_not_named_by_a_module_of_another_one() {
    assert!(is_named("let now = time::OffsetDateTime::now_utc();", "time"));
    assert!(is_named("use ::time::Duration;", "time"));
    assert!(!is_named("use tokio::time::sleep;", "time"));
    assert!(!is_named("overtime::pay()", "time"));
}

#[test]
fn the_lock_library_has_tls_only_where_it_is_asked_for() {
    let has_tls = |features| {
        let tree = tree(&["--package", "leaselock", "--features", features]);
        tree.iter().any(|line| line.starts_with("rustls v"))
    };
    assert!(!has_tls("redis,mysql,etcd,zookeeper"), "rustls without a feature");
    for feature in ["redis-tls", "mysql-tls", "etcd-tls"] {
        assert!(has_tls(feature), "{feature}");
    }
}

#[test]
fn the_program_of_the_image_starts_no_servers() {
    let contains = |features: &str, package: &str| {
        let tree = tree(&["--package", "seckill", "--features", features]);
        tree.iter().any(|line| line.starts_with(package))
    };
    assert!(contains("archive", "dev-servers v") && contains("full", "opentelemetry v"));
    assert!(!contains("full", "dev-servers v"), "private servers in the image");
}

/// Otherwise cargo compiles the service again for `make loadtest`, with more features of its dependencies.
#[test]
fn the_load_test_changes_no_feature_of_the_service() {
    for features in ["dev", "dev,etcd,zookeeper"] {
        let shop = tree(&["--package", "seckill", "--features", features]);
        let both = tree(&["--package", "seckill", "--package", "loadtest", "--features", features]);
        assert!(both.len() > shop.len());
        let changed: Vec<_> = shop.difference(&both).collect();
        assert!(changed.is_empty(), "{changed:?} in a build with loadtest: {both:#?}");
    }
}

/// The packages of a build, each with its version and features. Those of build scripts are left out: they have features of
/// their own, and cargo shows a package that a script and a program have with the dependencies of one of them.
fn tree(arguments: &[&str]) -> BTreeSet<String> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["tree", "--offline", "--edges", "no-dev,no-build", "--prefix", "none"]);
    cargo.args(["--no-dedupe", "--format", "{p} {f}"]).args(arguments);
    let output = cargo.current_dir(project()).output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}
