//! `seckill shop`: other shops, whose programs order for guests. It works on the ledger, without an instance. A token is
//! all that is printed to standard output; sentences go to standard error.

use std::path::Path;
use std::process::ExitCode;

use ledger::rows::shops::{self, Creation, SHOPS_MAX, Shop};
use mysql_connection::Database;
use shop_domain::ShopId;

use super::ExitResult;
use super::output::{counted, print_line};
use super::token::Signer;
use crate::config::Config;
use web::token::Holder;

/// The longest name of a shop, in characters.
const NAME_LENGTH_MAX: usize = 64;

/// The arguments: the action on the shops.
#[derive(clap::Subcommand)]
pub enum Action {
    /// Create a shop, and print a token for its program.
    Create(NamedShop),
    /// List the shops.
    List,
    /// Print one more token. Those before stay valid.
    Token(NamedShop),
    /// End all tokens of a shop, and print a new one.
    Rotate(NamedShop),
    /// End a shop and all its tokens, for good. Its orders stay.
    End(NamedShop),
}

/// The shop that an action is about.
#[derive(clap::Args)]
pub struct NamedShop {
    /// The name of the shop: letters of English, digits, '.', '_' and '-'.
    #[arg(value_parser = parse_name)]
    name: String,
}

/// Changes or lists the shops. Exit 1 when there is no such shop, or the name is taken.
pub async fn run(file: Option<&Path>, action: &Action) -> ExitResult {
    let config = super::settings(file)?;
    super::start_logging(&config)?;
    let pool = mysql_connection::pool(&config)?;
    let ended = act(&config, &pool, action).await;
    pool.close().await;
    ended
}

async fn act(config: &Config, pool: &Database, action: &Action) -> ExitResult {
    let (name, what) = match action {
        Action::List => return list(pool).await,
        Action::Create(shop) => (&shop.name, "create"),
        Action::Token(shop) => (&shop.name, "token"),
        Action::Rotate(shop) => (&shop.name, "rotate"),
        Action::End(shop) => (&shop.name, "end"),
    };
    let system_user = super::caller::system_user();
    tracing::info!(system_user, shop = name, "shop {what}, by a command");
    if let Action::End(_) = action {
        let Some(shop) = shops::end(pool, name).await.map_err(super::not_done)? else {
            return no_shop(name);
        };
        eprintln!("the shop {} and its tokens have ended", shop.name);
        return Ok(ExitCode::SUCCESS);
    }
    // Before something changes that needs a new token.
    let signer = Signer::new(config)?;
    let found = match action {
        Action::Create(_) => return create(pool, name, &signer).await,
        Action::Rotate(_) => shops::rotate(pool, name).await,
        _ => shops::find(pool, name).await,
    };
    let Some(shop) = found.map_err(super::not_done)? else { return no_shop(name) };
    print_token(&signer, shop.id, shop.generation);
    Ok(ExitCode::SUCCESS)
}

async fn create(pool: &Database, name: &str, signer: &Signer) -> ExitResult {
    match shops::create(pool, name).await.map_err(super::not_done)? {
        Creation::Made(id) => {
            eprintln!("made the shop {name} with the number {id}");
            print_token(signer, id, 0);
            Ok(ExitCode::SUCCESS)
        }
        Creation::NameTaken => super::refuse(format_args!(
            "the name {name} is taken; `seckill shop token {name}` prints one more token, if the shop goes on"
        )),
        Creation::TooMany => super::refuse(format_args!(
            "there are {SHOPS_MAX} shops, the most: end one first, with `seckill shop end`"
        )),
    }
}

async fn list(pool: &Database) -> ExitResult {
    let listed = shops::list(pool).await.map_err(super::not_done)?;
    for Shop { id, name, generation, ended_at, .. } in &listed {
        let state = if ended_at.is_some() { "ended" } else { "open" };
        print_line(format_args!("{id}\t{state}\t{generation}\t{name}"));
    }
    print_line(counted(listed.len(), "shop"));
    Ok(ExitCode::SUCCESS)
}

fn print_token(signer: &Signer, shop: ShopId, generation: u32) {
    let Signer { tokens, expires_at } = signer;
    print_line(tokens.sign_in_generation(Holder::Shop(shop), *expires_at, generation));
}

fn no_shop(name: &str) -> ExitResult {
    super::refuse(format_args!("no shop {name} goes on; `seckill shop list` names the shops"))
}

fn parse_name(text: &str) -> Result<String, String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if (1..=NAME_LENGTH_MAX).contains(&text.len()) && text.bytes().all(is_plain) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "a shop's name has 1 to {NAME_LENGTH_MAX} letters of English, digits, '.', '_' and '-'"
    ))
}
