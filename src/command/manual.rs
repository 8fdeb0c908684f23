//! `seckill manual`: the manual pages and the completions of shells, made from the command line itself, for packages.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{fs, io};

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;

use super::ExitResult;

/// What stands at the foot of each page.
const SOURCE: &str = concat!("Seckill ", env!("CARGO_PKG_VERSION"));

/// The arguments: where the files go.
#[derive(clap::Args)]
pub struct Arguments {
    /// A folder, which gets the folders `man` and `completions`.
    folder: PathBuf,
}

/// Writes a manual page for each subcommand, and the completions of bash, zsh and fish.
pub fn run(arguments: &Arguments) -> ExitResult {
    let pages = made(&arguments.folder.join("man"))?;
    let cannot_write = |error| format!("cannot write the manual: {error}");
    let mut line = super::command_line().disable_help_subcommand(true);
    line.build();
    write_pages(&line, &pages).map_err(cannot_write)?;
    let completions = made(&arguments.folder.join("completions"))?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut super::command_line(), "seckill", &completions)
            .map_err(cannot_write)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes the pages of a command and of its subcommands. Their synopsis is that of `--help`: the one of `clap_mangen` leaves
/// the values of options out.
fn write_pages(command: &Command, folder: &Path) -> io::Result<()> {
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        write_pages(sub, folder)?;
    }
    let mut command = command.clone();
    let usage = command.render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").to_owned();
    // An empty date without quotes would make the source the date.
    let page = Man::new(command.override_usage(usage)).date("\"\"").source(SOURCE);
    page.generate_to(folder)?;
    Ok(())
}

fn made(folder: &Path) -> Result<PathBuf, String> {
    fs::create_dir_all(folder)
        .map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    Ok(folder.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each subcommand has a page, and bash completes each of them.
    #[test]
    fn the_manual_names_every_subcommand() {
        let folder = std::env::temp_dir().join(format!("seckill-manual-{}", std::process::id()));
        assert_eq!(run(&Arguments { folder: folder.clone() }), Ok(ExitCode::SUCCESS));
        let bash = fs::read_to_string(folder.join("completions/seckill.bash")).expect("text");
        let line = super::super::command_line();
        let names: Vec<&str> = line.get_subcommands().map(|it| it.get_name()).collect();
        assert!(names.contains(&"doctor") && names.len() > 15, "{names:?}");
        for name in names {
            let page = fs::read_to_string(folder.join(format!("man/seckill-{name}.1")));
            assert!(page.is_ok_and(|text| text.contains(".SH NAME")), "no page of {name}");
            let completed = bash.split([' ', '"']).any(|word| word == name);
            assert!(completed, "{name} in {bash}");
        }
        let page = fs::read_to_string(folder.join("man/seckill-operator-create.1")).expect("text");
        let title = format!(".TH seckill-operator-create 1 \"\" \"{SOURCE}\"");
        for words in [title.as_str(), "[OPTIONS] <NAME>"] {
            assert!(page.contains(words), "no {words} in {page}");
        }
        fs::remove_dir_all(&folder).expect("removed");
    }
}
