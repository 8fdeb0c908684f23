//! The files of deployment: who may reach which server, and with whose password.

use std::fs;
use std::process::Command;

use web::address::Proxies;

use crate::house::docs::{read, root};
use crate::support::prelude::*;

/// The folders of the overlays of Kubernetes.
pub fn overlays() -> Vec<PathBuf> {
    let folder = root().join("deploy/kubernetes/overlays");
    let found = fs::read_dir(folder).expect("the folder");
    let found: Vec<_> = found.map(|entry| entry.expect("an entry").path()).collect();
    assert!(found.len() >= 4, "{found:?}");
    found
}

/// The YAML documents of a folder.
fn documents(folder: &Path) -> Vec<String> {
    let files = fs::read_dir(folder).expect("the folder");
    let files = files.map(|entry| entry.expect("an entry").path());
    let yaml = files.filter(|path| path.extension().is_some_and(|end| end == "yaml"));
    let texts = yaml.flat_map(|path| {
        let text = read(path);
        text.split("\n---\n").map(str::to_owned).collect::<Vec<_>>()
    });
    texts.collect()
}

fn is_of_kind(document: &str, kind: &str) -> bool {
    document.lines().any(|line| line == format!("kind: {kind}"))
}

/// Nobody finds out by an error that the namespace has to be there. As a file of the overlay it would go with the overlay,
/// and take the volumes of the databases along.
#[test]
fn each_overlay_names_its_namespace_first() {
    for overlay in overlays() {
        let kustomization = read(overlay.join("kustomization.yaml"));
        let name = kustomization.lines().find_map(|line| line.strip_prefix("namespace: "));
        let made = format!("#   kubectl create namespace {} ", name.expect("a namespace"));
        let shown = kustomization.find(&made).zip(kustomization.find("#   kubectl apply -k "));
        let is_first = shown.is_some_and(|(create, apply)| create < apply);
        assert!(is_first, "{}: no {made}", overlay.display());
    }
    assert!(!overlays().iter().any(|overlay| overlay.join("namespace.yaml").exists()));
}

/// Each rule names who may come: a rule with ports alone lets everybody in.
fn assert_names_who_may_come(policy: &str) {
    let rules = policy.split_once("  ingress:\n").expect("rules").1;
    let rules: Vec<_> = rules.lines().filter(|line| line.starts_with("    - ")).collect();
    assert!(!rules.is_empty(), "{policy}");
    assert!(rules.iter().all(|rule| *rule == "    - from:"), "{policy}");
    assert!(!policy.contains("podSelector: {}") && !policy.contains("namespaceSelector: {}"));
}

#[test]
fn only_the_ingress_and_prometheus_reach_the_service() {
    let policies = read("deploy/kubernetes/base/network-policy.yaml");
    let policies: Vec<_> = policies.split("\n---\n").collect();
    for policy in &policies {
        assert_names_who_may_come(policy);
    }
    let lines = policies.iter().flat_map(|policy| policy.lines());
    let names = lines.filter_map(|line| line.split_once("kubernetes.io/metadata.name: "));
    let namespaces: Vec<_> = names.map(|(_, name)| name.trim_end_matches(" }")).collect();
    assert_eq!(namespaces, ["ingress-nginx", "monitoring"]);
}

#[test]
fn a_start_is_refused_until_the_addresses_of_the_ingress_are_known() {
    const NAME: &str = "SECKILL_HTTP_TRUSTED_PROXIES=";
    for file in documents(&root().join("deploy/kubernetes/base")) {
        assert!(!file.contains(NAME), "no network is trusted without being asked for: {file}");
    }
    for overlay in overlays() {
        let example = read(overlay.join("secret.example.env"));
        let value = example.lines().find_map(|line| line.strip_prefix(NAME)).expect("a line");
        assert!(Proxies::parse(value).is_err(), "{}: {value:?}", overlay.display());
    }
}

#[test]
fn each_server_in_the_cluster_is_reached_by_named_pods_alone() {
    let mut servers = 0;
    for overlay in overlays() {
        let documents = documents(&overlay);
        for server in documents.iter().filter(|document| is_of_kind(document, "StatefulSet")) {
            servers += 1;
            let name = server.lines().find_map(|line| line.strip_prefix("  name: "));
            let labels = format!("    matchLabels: {{ app: {} }}", name.expect("a name"));
            let policy = documents.iter().find(|document| {
                is_of_kind(document, "NetworkPolicy") && document.contains(&labels)
            });
            let policy = policy.unwrap_or_else(|| panic!("{}: {labels}", overlay.display()));
            assert_names_who_may_come(policy);
            let kustomization = read(overlay.join("kustomization.yaml"));
            assert!(kustomization.contains("  - network-policy.yaml\n"), "{}", overlay.display());
        }
    }
    assert_eq!(servers, 4, "MySQL and Redis, in two overlays");
}

/// Variables of other services begin like settings, and a Service named `seckill` is here.
#[test]
fn no_pod_gets_the_variables_of_services() {
    let mut pods = 0;
    let folders = overlays().into_iter().chain([root().join("deploy/kubernetes/base")]);
    for document in folders.flat_map(|folder| documents(&folder)) {
        let is_pod =
            ["Deployment", "StatefulSet", "Job"].iter().any(|it| is_of_kind(&document, it));
        if is_pod {
            pods += 1;
            assert!(document.contains("\n      enableServiceLinks: false\n"), "{document}");
        }
    }
    assert_eq!(pods, 7, "the service, the migration, and the servers");
}

#[test]
fn sentinels_have_a_password_that_the_service_knows() {
    let redis = read("deploy/kubernetes/overlays/replicated/redis.yaml");
    let set = "printf 'requirepass %s\\n' \"$SENTINEL_PASSWORD\" >>/data/sentinel.conf";
    assert!(redis.contains(set));
    let questions = redis.lines().filter(|line| line.contains("-p 26379"));
    assert!(questions.clone().count() > 0);
    assert!(questions.clone().all(|line| line.contains("REDISCLI_AUTH=$SENTINEL_PASSWORD")));
    let example = read("deploy/kubernetes/overlays/replicated/secret.example.env");
    assert!(example.contains("\nSENTINEL_PASSWORD=\n"));
    assert!(example.contains("?sentinel_password=SENTINEL_PASSWORD\n"));
}

#[test]
fn the_account_that_replicates_has_a_password_of_its_own() {
    const KUBERNETES: &str = "deploy/kubernetes/overlays/replicated/mysql-group.yaml";
    for path in [KUBERNETES, "docker-compose.replicated.yml"] {
        let text = read(path);
        assert!(text.contains("MYSQL_REPLICA_PASSWORD"), "{path}");
        for words in ["'replica'@'%' IDENTIFIED BY '", "SOURCE_PASSWORD='"] {
            let mut after = text.split(words).skip(1);
            let password = after.next().unwrap_or_else(|| panic!("{path}: {words}"));
            assert!(password.trim_start_matches('$').starts_with("REPLICA_PASSWORD'"), "{path}");
            assert!(after.next().is_none(), "{path}: one account");
        }
    }
}

/// With an empty password a server takes its own, which everybody knows.
#[test]
fn no_password_may_be_left_empty_in_compose() {
    for kind in ["", ".cluster", ".replicated"] {
        let file = format!("docker-compose{kind}.yml");
        for line in read(&file).lines().filter(|line| line.contains("_PASSWORD")) {
            for (_, rest) in line.match_indices("${").map(|(at, _)| line.split_at(at + 2)) {
                let name_length = rest.find([':', '}']).expect("an end");
                let (name, rest) = rest.split_at(name_length);
                assert!(!name.ends_with("_PASSWORD") || rest.starts_with(":?"), "{file}: {line}");
            }
        }
    }
}

/// No registry has an image by the name that is there without SHOP_IMAGE, so the command for a look builds it.
#[test]
fn the_demonstration_builds_its_image() {
    const SHOWN: &str = "\n#   docker compose -f docker-compose.yml -f docker-compose.build.yml \
         --env-file deploy/demo.env --profile demo up\n";
    for file in ["docker-compose.yml", "deploy/demo.env"] {
        let text = read(file);
        assert!(text.contains(SHOWN), "{file} does not show {SHOWN}");
        assert_eq!(text.matches("--profile demo up").count(), 1, "{file}: one command");
    }
}

/// On one machine the service reaches MySQL by a socket, in a volume that both have.
#[test]
fn compose_shares_a_socket() {
    let compose = read("docker-compose.yml");
    for words in [
        "?socket=/run/mysqld/mysqld.sock&ssl-mode=REQUIRED",
        "[\"mysql-socket:/run/mysqld:ro\"]",
        "- mysql-socket:/var/run/mysqld\n",
        "--sync-binlog=1",
    ] {
        assert_eq!(compose.matches(words).count(), 1, "{words}");
    }
}

/// `mysql-replica` may be the writer later: what connects it at the first start would then delete its orders.
#[test]
fn compose_connects_a_pair_of_databases_once() {
    let compose = read("docker-compose.replicated.yml");
    let (_, step) = compose.split_once("\n  replication:\n").expect("the step");
    let (step, _) = step.split_once("\n    networks:").expect("its end");
    let commands: Vec<&str> = step.lines().map(str::trim).skip_while(|it| *it != "- >-").collect();
    // Without a pipe, which would hide that the server did not answer.
    let guard = [
        "- >-",
        r#"ask() { mysql -h"$$1" -uroot -Ne "$$2"; };"#,
        r#"known=$$(ask mysql-replica "SHOW DATABASES LIKE 'seckill'");"#,
        r#"if [ -n "$$known" ]; then echo "mysql-replica has the database: nothing is changed"; exit; fi;"#,
    ];
    assert!(step.contains(r#"entrypoint: ["sh", "-ec"]"#), "it goes on after a failure");
    assert_eq!(commands.get(..guard.len()), Some(guard.as_slice()), "it begins with its guard");
    assert!(!compose.contains("| grep"), "{step}");
    // Both start read-only from then on: `mysql` from its next start, and `mysql-replica` at once.
    for (server, words) in [
        ("ask mysql ", "SET PERSIST_ONLY super_read_only=ON;"),
        ("ask mysql-replica \"STOP", "SET PERSIST super_read_only=ON;"),
    ] {
        let (_, statements) = step.split_once(server).expect("its statements");
        let statements = statements.split("ask ").next().expect("a part");
        assert!(statements.contains(words), "{server}: {statements}");
    }
    // A file that says read-only needs the sentence that says how it ends.
    for path in ["docker-compose.replicated.yml", "docs/databases.md"] {
        assert!(read(path).contains("SET GLOBAL read_only=OFF"), "{path}");
    }
}

/// What a script of a container says, with a function `ask` in the place of redis-cli.
fn output_of(functions: &str, script: &str) -> String {
    let script = script.replace("redis-cli", "ask").replace("exec redis-server", "echo");
    let script = format!("{functions}\n{script}\nwait");
    let output = Command::new("sh").arg("-c").arg(script).env("HOSTNAME", "redis-0").output();
    let output = output.expect("a shell runs");
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

/// After `down` and `up` all nodes have new addresses, and each knows the others by old ones.
#[test]
fn the_nodes_of_a_cluster_meet_again_at_new_addresses() {
    const CLUSTER: &str = "getent() { echo \"10.0.0.${2#redis-} $2\"; }; ask() { case \"$*\" in \
         *info) echo cluster_slots_assigned:16384 ;; *meet*|*create*) echo \"$*\" ;; esac; }";
    let compose = read("docker-compose.cluster.yml");
    let (_, step) = compose.split_once("\n  redis:\n").expect("the step");
    let (_, script) = step.split_once("- >-\n").expect("its script");
    let (script, _) = script.split_once("exec sleep infinity").expect("its end");
    let script: Vec<&str> = script.lines().map(str::trim).collect();
    let said = output_of(CLUSTER, &script.join(" ").replace("$$", "$"));
    for node in 2..=6 {
        for met in [(1, node), (node, 1)] {
            let line = format!("-h redis-{} cluster meet 10.0.0.{} 6379\n", met.0, met.1);
            assert!(said.contains(&line), "{said}");
        }
    }
    assert!(!said.contains("create"), "{said}");
}

/// When all machines start again, Redis may start before the Sentinels. The first server may lack what the primary had.
#[test]
fn a_redis_without_sentinels_follows_the_last_primary() {
    let redis = read("deploy/kubernetes/overlays/replicated/redis.yaml");
    let (_, script) = redis.split_once("\n  redis.sh: |\n").expect("the script");
    let (script, _) = script.split_once("\n  sentinel.sh: |\n").expect("its end");
    let data = TestFolder::new("sentinel");
    let script = script.replace("/data/", &format!("{}/", data.display()));
    let first = output_of("ask() { false; }", &script);
    assert!(first.contains("--replica-announce-ip redis-0.redis"), "{first}");
    assert!(!first.contains("--replicaof"), "the first server is it at the first start: {first}");
    let noted = "port 26379\nsentinel monitor seckill redis-1.redis 6379 2\n";
    fs::write(data.join("sentinel.conf"), noted).expect("written");
    let later = output_of("ask() { false; }", &script);
    assert!(later.contains("--replicaof redis-1.redis 6379"), "{later}");
}

/// A run of the lab is known to one instance alone.
#[test]
fn each_proxy_of_several_instances_sends_the_lab_to_one() {
    let proxy = read("deploy/haproxy.cfg");
    let rule = "\n    use_backend lab if { path_beg /api/lab/ }\n";
    let rule = proxy.find(rule).expect("a rule for the lab");
    assert!(Some(rule) < proxy.find("\n    default_backend "), "the rule comes too late");
    let (_, lab) = proxy.split_once("\nbackend lab\n").expect("a backend for the lab");
    let lab = lab.split("\nbackend ").next().expect("its lines");
    assert!(lab.starts_with("    balance hash str(lab)\n    hash-type consistent"), "{lab}");
    let ingress = read("deploy/kubernetes/overlays/autoscaled/ingress.yaml");
    let documents: Vec<_> = ingress.split("\n---\n").collect();
    let hashed = |it: &&&str| it.contains("upstream-hash-by: lab }") && is_of_kind(it, "Ingress");
    let of_lab = documents.iter().find(hashed).expect("an ingress for the lab");
    let path = "{ path: /api/lab/, pathType: Prefix, backend: { service: { name: seckill-lab,";
    assert!(of_lab.contains(path), "{of_lab}");
    let service = documents.iter().find(|it| is_of_kind(it, "Service")).expect("its service");
    assert!(service.contains("\n  name: seckill-lab\n"), "{service}");
    assert!(service.contains("\n  selector: { app: seckill }\n"), "{service}");
}

/// A number in the manifest would undo what the autoscaler has set, at each apply.
#[test]
fn the_autoscaler_alone_sets_the_number_of_instances() {
    const REMOVES: &str = "{ kind: Deployment, name: seckill }\n    patch: |-\n      - op: remove\n        \
         path: /spec/replicas\n";
    let autoscaled = "deploy/kubernetes/overlays/autoscaled/kustomization.yaml";
    let kustomization = read(autoscaled);
    assert!(kustomization.contains(REMOVES), "{autoscaled} keeps the number of the base");
    assert!(read("deploy/kubernetes/base/deployment.yaml").contains("\n  replicas: "));
}

/// A cluster without a default class leaves an ingress alone that names none.
#[test]
fn each_ingress_names_its_controller() {
    let ingress = read("deploy/kubernetes/overlays/autoscaled/ingress.yaml");
    let documents = ingress.split("\n---\n").filter(|document| is_of_kind(document, "Ingress"));
    let documents: Vec<_> = documents.collect();
    assert_eq!(documents.len(), 2, "the shop and its lab");
    for document in documents {
        assert!(document.contains("\nspec:\n  ingressClassName: nginx\n"), "no class: {document}");
    }
}

/// Runs where HAProxy is installed.
#[test]
fn haproxy_takes_its_file() {
    let Some(program) = loadtest::haproxy::program() else { return };
    let file = root().join("deploy/haproxy.cfg");
    let output = Command::new(program).arg("-c").arg("-f").arg(file).output().expect("runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The containers of Vitess have the version that is built from source.
#[test]
fn vitess_has_one_version() {
    let script = read("scripts/vitess-program");
    let pinned = script.lines().find_map(|line| line.strip_prefix("version=v0."));
    // The module's v0.24.4 is Vitess 24.0.4.
    let version = pinned.expect("it pins one").replacen('.', ".0.", 1);
    let image = format!("image: vitess/lite:v{version}");
    assert!(read("deploy/vitess/compose.yml").lines().any(|line| line.trim() == image), "{image}");
}
