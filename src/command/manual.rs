//! `seckill manual`: the manual pages and the completions of shells, made from the command line itself, for packages.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap_complete::Shell;

use super::ExitResult;

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
    clap_mangen::generate_to(super::command_line(), pages).map_err(cannot_write)?;
    let completions = made(&arguments.folder.join("completions"))?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut super::command_line(), "seckill", &completions)
            .map_err(cannot_write)?;
    }
    Ok(ExitCode::SUCCESS)
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
        fs::remove_dir_all(&folder).expect("removed");
    }
}
