# One command for each thing that people do here; `make` alone lists them.
# What a command needs and the machine lacks is installed first, see scripts/install-packages.
.DEFAULT_GOAL := help
.PHONY: help run test test-all test-mysql test-engines test-redis faults loadtest compare bench site walk release lint fmt

help: ## list the commands
	@awk -F ': ## ' '/^[a-z-]+: ## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## a shop to buy in at http://127.0.0.1:8080, with private servers; Ctrl-C stops it all
	@exec scripts/run

test: ## format, lints and the tests on real servers, all but the slow ones
	@exec scripts/test

test-all: ## the slow tests, too, and the shop's tests on every Redis and database engine; hours. ARGS="tests"
	@exec scripts/test-all $(ARGS)

test-mysql: ## every test on a real MySQL server instead of MariaDB
	@mysqld=$$(scripts/mysql-sid) && SECKILL_MYSQLD=$$mysqld exec scripts/test

test-engines: ## the shop's tests on MySQL, a semi-synchronous pair, Galera, Group Replication and Vitess, too; ARGS="galera"
	@exec scripts/test-mysql-engines $(ARGS)

test-redis: ## strategies and locks on Redis with TLS, Sentinels and a cluster, and on Valkey 9; ARGS="cluster", VALKEY_SERVER=...
	@exec scripts/test-redis $(ARGS)

faults: ## the fault matrix, report in target/faults; ARGS="--seeds 10 --seconds 5", "--list"
	@exec scripts/faults $(ARGS)

loadtest: ## fire the default load at the running shop, or at one started for it; ARGS="--help"
	@exec scripts/loadtest $(ARGS)

compare: ## every strategy beside the others, report in target/compare; ARGS="break --times 20"
	@exec scripts/compare $(ARGS)

bench: ## the performance ratios beside their baselines, report in target/bench; ARGS="--all", "--beside PROGRAM"
	@exec scripts/bench $(ARGS)

site: ## the README, docs and play.html as a site with search for any host, in target/site; needs mdbook
	@exec scripts/site

walk: ## every way to start it, an installation on an empty machine up to the restored backup, and the archive of `make release` on bare systems; needs root and debootstrap
	@ls "$${CARGO_TARGET_DIR:-target}"/release-archives/seckill-*-"$$(uname -m)"-*.tar.gz >/dev/null || { echo "make release first: the last part starts its archive" >&2; exit 1; }
	@scripts/walk-starts && scripts/build-tests && scripts/walk && exec scripts/walk-archive

release: ## archives and Debian packages for x86-64 and arm64, in target/release-archives; see scripts/release
	@exec scripts/release $(ARGS)

lint: ## format, lints, unused dependencies and rules of the source; builds the tests for `make test`
	@scripts/install-packages build
	@scripts/step format scripts/format-check
	@scripts/step build-with-lints scripts/build-tests
	@scripts/step rules scripts/check-rules

fmt: ## format every Rust file
	cargo fmt --all
	git ls-files --cached --others --exclude-standard '*.rs' | \
		while IFS= read -r file; do [ ! -e "$$file" ] || printf '%s\0' "$$file"; done | \
		xargs -0 rustfmt --edition 2024 --config-path .
