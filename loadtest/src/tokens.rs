//! Bearer tokens, minted by the service's own program: their format is none of our business.

use std::collections::HashMap;
use std::env;
use std::path::PathBuf;
use std::time::Duration;

use hyper::header::HeaderValue;
use tokio::process::Command;
use tokio::time::timeout;
use uuid::Uuid;

use crate::environment::Environment;
use crate::failure::CannotJudge;

/// Millions of tokens, or a schema, take seconds; more than this means that the program hangs.
const MINT_SECONDS_MAX: u64 = 120;

/// Mints tokens by running `seckill token` and `seckill shop`, and runs its other commands.
pub struct Mint {
    program: PathBuf,
    environment: HashMap<String, String>,
}

/// A shop of a load test.
pub struct TestShop {
    name: String,
    /// The `Authorization` value of its program.
    pub token: HeaderValue,
}

impl Mint {
    /// `program` is the `seckill` program.
    pub fn new(program: PathBuf, environment: &Environment) -> Self {
        Self { program, environment: environment.for_service() }
    }

    /// The `Authorization` values of the buyers `first..first + count`, in order.
    pub async fn buyers(&self, first: i64, count: u32) -> Result<Vec<HeaderValue>, CannotJudge> {
        self.mint(first, i64::from(count), None).await
    }

    /// The `Authorization` value of an admin.
    pub async fn admin(&self) -> Result<HeaderValue, CannotJudge> {
        Ok(self.mint(1, 1, Some("admin")).await?.remove(0))
    }

    /// Creates a shop, whose program buys for guests.
    pub async fn shop(&self) -> Result<TestShop, CannotJudge> {
        let name = format!("loadtest-{}", Uuid::now_v7().simple());
        let token = self.run(&["shop", "create", &name]).await?;
        Ok(TestShop { name, token: bearer(token.trim())? })
    }

    /// Ends a shop.
    pub async fn end(&self, shop: &TestShop) -> Result<(), CannotJudge> {
        self.run(&["shop", "end", &shop.name]).await.map(drop)
    }

    async fn mint(
        &self,
        first: i64,
        count: i64,
        role: Option<&str>,
    ) -> Result<Vec<HeaderValue>, CannotJudge> {
        let last = first
            .checked_add(count - 1)
            .ok_or_else(|| CannotJudge::new("--first-buyer is too high"))?;
        let users = format!("{first}..={last}");
        let mut arguments = vec!["token", "--user", &users];
        arguments.extend(role.into_iter().flat_map(|role| ["--role", role]));
        let text = self.run(&arguments).await?;
        let tokens: Vec<&str> =
            text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        if i64::try_from(tokens.len()) != Ok(count) {
            return Err(CannotJudge(format!(
                "`{} token` printed {} tokens instead of {count}",
                self.program.display(),
                tokens.len()
            )));
        }
        tokens.into_iter().map(bearer).collect()
    }

    /// Runs the program, and returns what it has written to standard output.
    pub async fn run(&self, arguments: &[&str]) -> Result<String, CannotJudge> {
        let program = format!("{} {}", self.program.display(), arguments[0]);
        let mut command = Command::new(&self.program);
        command.args(arguments).envs(&self.environment).kill_on_drop(true);
        let output = timeout(Duration::from_secs(MINT_SECONDS_MAX), command.output())
            .await
            .map_err(|_| {
                CannotJudge(format!("`{program}` did not end within {MINT_SECONDS_MAX} s"))
            })?
            .map_err(|error| {
                CannotJudge(format!(
                    "`{program}` did not start ({error}); name the program with --seckill PATH"
                ))
            })?;
        if !output.status.success() {
            let reason = String::from_utf8_lossy(&output.stderr);
            return Err(CannotJudge(format!("`{program}` failed: {}", reason.trim())));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// The `seckill` program: the given one, else that beside this program, else that on PATH.
pub fn seckill_program(given: Option<PathBuf>) -> PathBuf {
    let beside = env::current_exe().ok().map(|own| own.with_file_name("seckill"));
    given
        .or_else(|| beside.filter(|path| path.is_file()))
        .unwrap_or_else(|| PathBuf::from("seckill"))
}

fn bearer(token: &str) -> Result<HeaderValue, CannotJudge> {
    let mut value = HeaderValue::from_str(&format!("Bearer {token}"))
        .map_err(|_| CannotJudge::new("a minted token does not fit into a header"))?;
    value.set_sensitive(true);
    Ok(value)
}
