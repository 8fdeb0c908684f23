//! Each script that checks something ends with a failure when one of its tools finds a fault. The tools are
//! replaced by scripts that report the planted fault.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::house::docs::{read, root};
use crate::support::prelude::*;

/// What `check-manifests` reads.
const DEPLOYED: [&str; 2] = ["deploy/demo.env", "docker-compose.yml"];
const OVERLAY: &str = "deploy/kubernetes/overlays/one/secret.example.env";
const UNIT: &str = "deploy/systemd/seckill";
/// Each tool fails where a file `NAME-fails` stands.
const TOOL: &str = "[ ! -e \"$PLANTED/$(basename \"$0\")-fails\" ]\n";
const KUBECTL: &str = "\
[ ! -e \"$PLANTED/kubectl-fails\" ] || exit 1
for kind in Deployment Service PodDisruptionBudget Job NetworkPolicy ConfigMap Secret; do
    [ -e \"$PLANTED/without-$kind\" ] || echo \"kind: $kind\"
done
";
const DOCKER: &str = "\
case \"$*\" in
*version) exit 0 ;;
*/dev/null*) [ -e \"$PLANTED/own-secrets\" ] || { echo 'set it in .env' >&2; exit 1; } ;;
*--services) echo shop; [ ! -e \"$PLANTED/no-limit\" ] || echo hungry ;;
*)
    echo '    mem_limit: 64m'
    [ ! -e \"$PLANTED/nowhere\" ] || echo \"      source: $PLANTED/not-there\"
    ;;
esac
";
/// Fails at the subcommand that is named in the file `at`, and says what stands in the file `says`.
const CARGO: &str = "\
echo \"$*\" >>\"$PLANTED/asked\"
cat \"$PLANTED/says\" 2>/dev/null
[ \"$(cat \"$PLANTED/at\" 2>/dev/null)\" != \"$1\" ]
";

/// A folder with scripts of the project, and with tools that report the planted fault.
struct Bench {
    folder: TestFolder,
}

impl Bench {
    fn new(scripts: &[&str], tools: &[(&str, &str)]) -> Self {
        let bench = Self { folder: TestFolder::new("scripts") };
        for script in scripts {
            bench.script(&format!("scripts/{script}"), &read(format!("scripts/{script}")));
        }
        for (tool, text) in tools {
            bench.script(&format!("tools/{tool}"), &format!("#!/bin/sh\n{text}"));
        }
        fs::create_dir_all(bench.folder.join("planted")).expect("a folder");
        bench
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.folder.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, text).expect("written");
    }

    fn script(&self, path: &str, text: &str) {
        self.write(path, text);
        let executable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(self.folder.join(path), executable).expect("executable");
    }

    /// Plants one fault, and runs a script; its exit code and what it says.
    fn run(&self, script: &str, arguments: &[&str], planted: &[(&str, &str)]) -> (i32, String) {
        for (name, text) in planted {
            self.write(&format!("planted/{name}"), text);
        }
        let path = std::env::var("PATH").unwrap_or_default();
        let mut run = Command::new(self.folder.join("scripts").join(script));
        run.args(arguments).current_dir(&*self.folder);
        run.env("PATH", format!("{}:{path}", self.folder.join("tools").display()));
        run.env("PLANTED", self.folder.join("planted"));
        // A promtool of the machine is no tool of this bench.
        run.env_remove("SECKILL_PROMTOOL").env("XDG_CACHE_HOME", &*self.folder);
        run.env_remove("CARGO_TARGET_DIR").env_remove("SECKILL_TEST_ALL");
        let output = run.output().expect("it runs");
        for (name, _) in planted {
            fs::remove_file(self.folder.join("planted").join(name)).expect("removed");
        }
        let said = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&said).into_owned())
    }
}

#[test]
fn check_manifests_fails_with_each_of_its_tools() {
    let failing = ["hadolint", "systemd-analyze", "actionlint", "zizmor", "promtool"]
        .map(|tool| (tool, TOOL));
    let tools = [&failing[..], &[("kubectl", KUBECTL), ("docker", DOCKER)]].concat();
    let bench = Bench::new(&["check-manifests"], &tools);
    for path in DEPLOYED.iter().chain([&OVERLAY]) {
        bench.write(path, "");
    }
    for kind in ["service", "socket"] {
        bench.write(&format!("{UNIT}.{kind}"), "");
    }
    let (code, said) = bench.run("check-manifests", &[], &[]);
    assert_eq!(code, 0, "{said}");
    let tools = failing.map(|(tool, _)| format!("{tool}-fails"));
    let own = ["kubectl-fails", "without-NetworkPolicy", "own-secrets", "no-limit", "nowhere"];
    for planted in own.into_iter().chain(tools.iter().map(String::as_str)) {
        let (code, said) = bench.run("check-manifests", &[], &[(planted, "")]);
        assert_ne!(code, 0, "{planted}: {said}");
    }
}

#[test]
fn check_rules_fails_where_the_program_or_a_rule_does() {
    let bench = Bench::new(&["check-rules", "test-settings"], &[("cargo", CARGO)]);
    let (code, said) = bench.run("check-rules", &[], &[]);
    assert_eq!(code, 0, "{said}");
    let asked = fs::read_to_string(bench.folder.join("planted/asked")).expect("it asked");
    for words in ["check --package seckill --no-default-features", "dependencies:: tidy:: prose::"]
    {
        assert!(asked.contains(words), "{asked}");
    }
    for at in ["check", "test"] {
        let (code, said) = bench.run("check-rules", &[], &[("at", at)]);
        assert_ne!(code, 0, "{at}: {said}");
    }
}

/// Cargo does not know a file that no module names; the script finds it by git.
#[test]
fn format_check_finds_a_file_that_cargo_does_not_know() {
    const FORMATTED: &str = "pub fn one() -> u8 {\n    1\n}\n";
    const UNFORMATTED: &str = "pub fn two() -> u8 { 2\n}\n";
    let bench = Bench::new(&["format-check"], &[]);
    bench.write("Cargo.toml", "[package]\nname = \"small\"\nedition = \"2024\"\n");
    bench.write("src/lib.rs", FORMATTED);
    bench.write("rustfmt.toml", &read("rustfmt.toml"));
    let git = Command::new("git").args(["init", "--quiet"]).current_dir(&*bench.folder).status();
    assert!(git.expect("git runs").success());
    let check = || bench.run("format-check", &[], &[]);
    let (code, said) = check();
    assert_eq!(code, 0, "{said}");
    for file in ["src/lib.rs", "src/unnamed.rs"] {
        bench.write(file, UNFORMATTED);
        let (code, said) = check();
        assert!(code != 0 && said.contains(file), "{file}: {said}");
        bench.write(file, FORMATTED);
    }
}

#[test]
fn a_build_with_a_warning_fails() {
    let bench = Bench::new(&["build-tests", "test-settings"], &[("cargo", CARGO)]);
    let build = |planted: &[(&str, &str)]| bench.run("build-tests", &[], planted);
    assert_eq!(build(&[]).0, 0);
    assert_eq!(build(&[("says", "   Compiling small\n")]).0, 0);
    assert_eq!(build(&[("says", "warning: unused variable\n")]).0, 1);
    assert_eq!(build(&[("at", "test")]).0, 1);
}

/// A run whose programs have no test is no proof.
#[test]
fn a_run_without_a_test_fails() {
    const NOTHING: &str = "#!/bin/sh\n";
    let tools = [("cargo", CARGO)];
    let scripts = ["test", "test-settings", "test-parts", "step", "test-again"];
    let bench = Bench::new(&scripts, &tools);
    for left_out in ["install-packages", "format-check", "build-tests"] {
        bench.script(&format!("scripts/{left_out}"), NOTHING);
    }
    let passed = "test result: ok. 3 passed; 0 failed; 0 ignored\n";
    let (code, said) = bench.run("test", &[], &[("says", passed)]);
    assert_eq!(code, 0, "{said}");
    let (code, said) = bench.run("test", &[], &[("says", "")]);
    assert!(code == 1 && said.contains("no-test-ran"), "{said}");
    let (code, said) = bench.run("test", &[], &[("says", passed), ("at", "test")]);
    assert_eq!(code, 1, "{said}");
    for step in ["format-check", "build-tests"] {
        bench.script(&format!("scripts/{step}"), "#!/bin/sh\nexit 1\n");
        let (code, said) = bench.run("test", &[], &[("says", passed)]);
        assert_eq!(code, 1, "{step}: {said}");
        bench.script(&format!("scripts/{step}"), NOTHING);
    }
}

#[test]
fn only_one_or_two_tests_that_pass_alone_are_unsteady() {
    const FAILED: &str = "test result: FAILED. 8 passed; 1 failed\nerror: 1 target failed:\n    `-p small --test one`\n";
    let bench = Bench::new(&["test-again", "test-settings"], &[("cargo", CARGO)]);
    let again = |output: &str, names: &str, planted: &[(&str, &str)]| {
        bench.write("output", output);
        bench.run("test-again", &["output", names], planted)
    };
    let passes = ("says", "test result: ok. 1 passed; 0 failed\n");
    for names in ["    one", "    one\n    two"] {
        let (code, said) = again(FAILED, names, &[passes]);
        assert_eq!(code, 0, "{said}");
    }
    let crashed = FAILED.replace("1 target failed", "2 targets failed");
    for (output, names, planted, why) in [
        (FAILED, "    one", &[passes, ("at", "test")][..], "it fails again"),
        (FAILED, "    one", &[("says", "test result: ok. 0 passed; 0 failed\n")], "no such test"),
        (FAILED, "    one\n    two\n    three", &[passes], "three failed"),
        (FAILED, "", &[passes], "none failed"),
        (&*crashed, "    one", &[passes], "a program crashed"),
    ] {
        let (code, said) = again(output, names, planted);
        assert_ne!(code, 0, "{why}: {said}");
    }
}

#[test]
fn the_features_are_those_that_are_asked_for() {
    let script = root().join("scripts/features");
    let features = |name: &str, value: &str| {
        let mut run = Command::new(&script);
        for variable in ["WITH", "LOCK_ETCD_ENDPOINTS", "LOCK_ZOOKEEPER_HOSTS"] {
            run.env_remove(format!("SECKILL_{variable}"));
        }
        let output = run.env(name, value).output().expect("it runs");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    assert_eq!(features("SECKILL_WITH", "redlock"), "dev");
    assert_eq!(features("SECKILL_WITH", "zookeeper,etcd"), "dev,zookeeper,etcd");
    assert_eq!(features("SECKILL_LOCK_ETCD_ENDPOINTS", "http://a:1"), "dev,etcd");
    assert_eq!(features("SECKILL_LOCK_ZOOKEEPER_HOSTS", "a:1"), "dev,zookeeper");
}
