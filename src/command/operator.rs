//! `seckill operator`: the accounts that may run sales. It works on the ledger, so that the first
//! operator can be made before any operator can sign in.

use std::io::{BufRead, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::account::password;
use crate::config::Config;
use ledger::rows::operators;
use ledger::rows::users::NewAccount;
use mysql_connection::Database;
use shop_domain::{UserId, Username};
use web::token::Role;

use super::ExitResult;
use super::output::{counted, print_line};

/// The arguments: the action on the accounts.
#[derive(clap::Subcommand)]
pub enum Action {
    /// Create the account of an operator. The password is asked for on a terminal.
    Create {
        /// The user name of the account.
        #[arg(value_parser = parse_name)]
        name: Username,
        /// operator runs sales and reads its own actions; admin reads those of all.
        #[arg(long, default_value = "operator", value_parser = parse_role)]
        role: Role,
        #[command(flatten)]
        source: PasswordSource,
    },
    /// Give a role to an account that exists. It has to sign in again.
    Grant {
        /// The user name of the account.
        #[arg(value_parser = parse_name)]
        name: Username,
        /// operator or admin.
        #[arg(long, default_value = "operator", value_parser = parse_role)]
        role: Role,
    },
    /// List the operators.
    List,
    /// Make an operator a buyer, and end its sessions.
    Revoke {
        /// The user name of the account.
        #[arg(value_parser = parse_name)]
        name: Username,
    },
    /// Set a forgotten password, and end all sessions of the account.
    Password {
        /// The user name of the account.
        #[arg(value_parser = parse_name)]
        name: Username,
        #[command(flatten)]
        source: PasswordSource,
    },
}

#[derive(clap::Args)]
pub struct PasswordSource {
    /// A file whose first line is the password; `-` reads standard input.
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
}

/// Changes or lists the operators. Exit 1 when there is no such account, or the name is taken.
pub async fn run(file: Option<&Path>, action: &Action) -> ExitResult {
    let config = super::settings(file)?;
    let pool = mysql_connection::pool(&config)?;
    let ended = match action {
        Action::Create { name, role, source } => create(&pool, name, *role, source).await,
        Action::Grant { name, role } => grant(&pool, name, *role).await,
        Action::List => list(&pool).await,
        Action::Revoke { name } => grant(&pool, name, Role::Buyer).await,
        Action::Password { name, source } => set_password(&pool, name, source).await,
    };
    pool.close().await;
    ended
}

/// Checks that the user whom a command names as its operator may run sales.
pub(super) async fn check(config: &Config, user: UserId) -> Result<(), String> {
    let pool = mysql_connection::pool(config)?;
    // Set if the provider says who may run sales.
    let role_claim = config.sections.text("identity", "role_claim").unwrap_or_default();
    let by_provider = !role_claim.is_empty();
    let may_operate = operators::may_operate(&pool, user, by_provider).await;
    pool.close().await;
    match may_operate {
        Ok(true) => Ok(()),
        Ok(false) => {
            Err(format!("user {user} is no operator; `seckill operator list` names the operators"))
        }
        Err(error) => Err(super::not_done(error)),
    }
}

async fn create(
    pool: &Database,
    name: &Username,
    role: Role,
    source: &PasswordSource,
) -> ExitResult {
    let password_hash = source.read_hash(name)?;
    let new = NewAccount {
        username: name,
        password_hash: &password_hash,
        role: role.as_str(),
        demo: false,
    };
    let created = operators::create(pool, &new).await.map_err(super::not_done)?;
    let Some(user) = created else {
        let name = name.typed();
        return super::refuse(format_args!(
            "the name {name} is taken; `seckill operator grant {name}` makes that account an operator"
        ));
    };
    print_line(format_args!("made the {} {} with the user id {user}", role.as_str(), name.typed()));
    Ok(ExitCode::SUCCESS)
}

async fn grant(pool: &Database, name: &Username, role: Role) -> ExitResult {
    let changed = operators::set_role(pool, name, role.as_str()).await;
    let Some(user) = changed.map_err(super::not_done)? else { return no_account(name) };
    print_line(format_args!(
        "{}, user id {user}, has the role {} now",
        name.typed(),
        role.as_str()
    ));
    Ok(ExitCode::SUCCESS)
}

async fn set_password(pool: &Database, name: &Username, source: &PasswordSource) -> ExitResult {
    let hash = source.read_hash(name)?;
    let changed = operators::set_password(pool, name, &hash).await;
    let Some(user) = changed.map_err(super::not_done)? else { return no_account(name) };
    print_line(format_args!(
        "{}, user id {user}, has a new password, and its sessions have ended",
        name.typed()
    ));
    Ok(ExitCode::SUCCESS)
}

async fn list(pool: &Database) -> ExitResult {
    let listed = operators::list(pool).await.map_err(super::not_done)?;
    for operator in &listed {
        print_line(format_args!("{}\t{}\t{}", operator.id, operator.role, operator.username));
    }
    print_line(counted(listed.len(), "operator"));
    Ok(ExitCode::SUCCESS)
}

impl PasswordSource {
    /// Reads the password, refuses one that is easy to guess, and hashes it.
    fn read_hash(&self, name: &Username) -> Result<String, String> {
        let password = self.read()?;
        if !password::is_acceptable(&password) {
            return Err("the password needs at least 8 characters and at most 256 bytes".to_owned());
        }
        if password::is_common(&password, name.typed()) {
            return Err(
                "the password is one that attackers try first, or the name: choose another"
                    .to_owned(),
            );
        }
        password::hash(&password).ok_or_else(|| "the password could not be hashed".to_owned())
    }

    fn read(&self) -> Result<String, String> {
        let failed = |error: std::io::Error| format!("the password cannot be read: {error}");
        let first_line = |text: &str| text.lines().next().unwrap_or_default().to_owned();
        match &self.password_file {
            Some(path) if path.as_os_str() == "-" => {
                let mut line = String::new();
                std::io::stdin().lock().read_line(&mut line).map_err(failed)?;
                Ok(first_line(&line))
            }
            Some(path) => {
                let text = std::fs::read_to_string(path).map_err(|error| {
                    format!("the password cannot be read from {}: {error}", path.display())
                })?;
                Ok(first_line(&text))
            }
            None if std::io::stdin().is_terminal() => {
                let once = rpassword::prompt_password("Password: ").map_err(failed)?;
                let again = rpassword::prompt_password("Once more: ").map_err(failed)?;
                if once == again { Ok(once) } else { Err("the two passwords differ".to_owned()) }
            }
            None => Err("no terminal to ask for the password: use --password-file FILE, or --password-file - for standard input".to_owned()),
        }
    }
}

fn no_account(name: &Username) -> ExitResult {
    super::refuse(format_args!("there is no account {}", name.typed()))
}

fn parse_name(text: &str) -> Result<Username, String> {
    Username::parse(text).ok_or_else(|| {
        "a name has 1 to 32 letters of one script, digits, '.', '_' and '-'".to_owned()
    })
}

fn parse_role(text: &str) -> Result<Role, String> {
    Role::parse(text)
        .filter(|role| role.may_operate())
        .ok_or_else(|| "the roles are operator and admin".to_owned())
}
