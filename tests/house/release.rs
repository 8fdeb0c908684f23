//! The files of a release agree with each other: one version, one list of licences, one name of the archive.

use std::fs;
use std::process::Command;

use toml::{Table, Value};

use crate::house::deploy::overlays;
use crate::house::docs::{links, pages, read, root};
use crate::support::prelude::*;

fn manifest(path: &str) -> Table {
    read(path).parse().unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The images have the tag of the release, which is `v` and the version.
#[test]
fn compose_pulls_the_image_of_this_version() {
    let workflow = read(".github/workflows/release.yml");
    assert_eq!(workflow.matches("          tags: ${{ env.IMAGE }}").count(), 2, "two images");
    assert_eq!(workflow.matches(":${{ github.ref_name }}\n").count(), 2, "with the tag's name");
    assert!(workflow.contains("GITHUB_REF_NAME#v"), "the name of the tag is `v` and the version");
    let tag = format!("    newTag: v{}", version());
    for overlay in overlays() {
        let kustomization = read(overlay.join("kustomization.yaml"));
        let tags = kustomization.lines().filter(|line| line.contains("newTag:"));
        assert_eq!(tags.collect::<Vec<_>>(), [&tag], "{}", overlay.display());
    }
    let line = format!("  image: ${{SHOP_IMAGE:-seckill}}:${{SHOP_VERSION:-v{}}}", version());
    let compose = read("docker-compose.yml");
    assert!(compose.lines().any(|it| it == line), "docker-compose.yml has no line {line:?}");
    assert!(!compose.contains("build:"), "it is built with docker-compose.build.yml alone");
}

#[test]
fn cargo_binstall_finds_the_archive() {
    let cargo = manifest("Cargo.toml");
    let binstall = &cargo["package"]["metadata"]["binstall"];
    let url = binstall["pkg-url"].as_str().expect("an address");
    assert!(url.ends_with("/v{ version }/seckill-{ version }-{ target }.tar.gz"), "{url}");
    let folder = binstall["bin-dir"].as_str().expect("a path");
    assert_eq!(folder, "seckill-{ version }-{ target }/{ bin }{ binary-ext }");
    assert!(read("scripts/release").contains("    name=seckill-$version-$1\n"));
}

#[test]
fn the_archive_names_the_licences_that_are_allowed() {
    let names = |list: &Value| -> BTreeSet<String> {
        let list = list.as_array().expect("a list").iter();
        list.map(|name| name.as_str().expect("a name").to_owned()).collect()
    };
    let allowed = names(&manifest("deny.toml")["licenses"]["allow"]);
    assert_eq!(names(&manifest("scripts/licences.toml")["accepted"]), allowed);
}

/// Of a link to a file that an archive has not, the words stay.
#[test]
fn the_pages_of_an_archive_have_no_dead_link() {
    let root = root().canonicalize().expect("a folder");
    let images = fs::read_dir(root.join("docs/img")).expect("a folder").flatten();
    let images = images.map(|image| Path::new("docs/img").join(image.file_name()));
    let there: BTreeSet<PathBuf> =
        pages().into_iter().map(|page| page.path).chain(images).collect();
    let list = std::env::temp_dir().join(unique("there"));
    let lines: Vec<String> = there.iter().map(|path| format!("{}\n", path.display())).collect();
    fs::write(&list, lines.concat()).expect("written");
    let mut gone = 0;
    for page in pages() {
        let mut relink = Command::new(root.join("scripts/relink"));
        let output = relink.arg(&page.path).arg(&list).current_dir(&root).output().expect("runs");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{}: {text}", page.path.display());
        let kept = links(&text);
        gone += links(&page.text).len() - kept.len();
        let folder = root.join(&page.path).parent().expect("a folder").to_owned();
        for target in kept.into_iter().filter(|target| !target.contains(':')) {
            let file = target.split('#').next().unwrap_or_default();
            let path = folder.join(file).canonicalize().expect("it is there");
            let path = path.strip_prefix(&root).expect("of the project");
            let is_there = file.is_empty() || there.contains(path);
            assert!(is_there, "{}: {target}", page.path.display());
        }
    }
    fs::remove_file(&list).expect("ours");
    assert!(gone > 50, "{gone} links are gone: the test reads the pages wrongly");
}

/// The tools that the workflow installs are those that scripts/release asks for.
#[test]
fn the_workflow_installs_the_tools_of_the_archive() {
    let workflow = read(".github/workflows/release.yml");
    let script = read("scripts/release");
    let needs: Vec<_> = script.split_whitespace().filter(|word| word.contains("@0.")).collect();
    let pinned: Vec<_> = script.split_whitespace().filter(|word| word.contains("==")).collect();
    assert!(needs.len() == 3 && pinned.len() == 2, "{needs:?} {pinned:?}");
    for tool in needs.iter().chain(&pinned) {
        assert!(workflow.contains(tool), "release.yml does not install {tool}");
    }
}

fn version() -> String {
    let cargo = manifest("Cargo.toml");
    cargo["workspace"]["package"]["version"].as_str().expect("a version").to_owned()
}
