//! `weir man` and `weir completions`: made from the same description of the command line that parses it.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::fail;

/// The flags of `weir man`.
#[derive(Args, Debug)]
#[command(after_help = "Example: weir man proxy | man -l -")]
pub(crate) struct ManArgs {
    /// The command whose page is wanted; without it, the page of weir itself
    #[arg(value_name = "SUBCOMMAND")]
    subcommand: Option<String>,
}

/// The flags of `weir completions`.
#[derive(Args, Debug)]
#[command(after_help = "Example: weir completions bash > /etc/bash_completion.d/weir")]
pub(crate) struct CompletionsArgs {
    /// The shell that is to complete weir's command line
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

impl ManArgs {
    /// Writes a manual page in roff to standard output.
    pub(crate) fn run(self, mut cli: Command) -> ExitCode {
        cli.build();
        let Some(page) = page(&cli, self.subcommand.as_deref()) else {
            let name = self.subcommand.unwrap_or_default();
            return fail(2, &format!("there is no command {name}: weir --help lists all"));
        };
        let mut roff = Vec::new();
        finish(Man::new(page).render(&mut roff).and_then(|()| io::stdout().write_all(&roff)))
    }
}

impl CompletionsArgs {
    /// Writes a completion script to standard output.
    pub(crate) fn run(self, mut cli: Command) -> ExitCode {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut cli, "weir", &mut script);
        finish(io::stdout().write_all(&script))
    }
}

fn page(cli: &Command, subcommand: Option<&str>) -> Option<Command> {
    match subcommand {
        None => Some(cli.clone()),
        Some(name) => cli.find_subcommand(name).cloned(),
    }
}

fn finish(written: io::Result<()>) -> ExitCode {
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(1, &format!("cannot write: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::Cli;

    #[test]
    fn the_page_of_a_subcommand_tells_of_its_flags() {
        let mut cli = Cli::command();
        cli.build();
        let mut roff = Vec::new();
        Man::new(page(&cli, Some("load")).expect("load is a subcommand"))
            .render(&mut roff)
            .expect("it renders");
        let text = String::from_utf8(roff).expect("a page is text").replace('\\', "");
        for part in [".TH weir-load 1", "--rate", "--think-time", "--fail-if", "--hdr", "--start-at"] {
            assert!(text.contains(part), "{part}");
        }
        assert!(page(&cli, Some("frobnicate")).is_none());
    }

    #[test]
    fn the_help_lists_every_command_with_a_line() {
        let mut cli = Cli::command();
        let help = cli.render_help().to_string();
        let commands: Vec<_> = cli.get_subcommands().collect();
        assert!(commands.len() >= 8);
        for command in commands {
            let about = command.get_about().unwrap_or_else(|| panic!("{command} has a line")).to_string();
            let line = help.lines().find(|line| line.split_whitespace().next() == Some(command.get_name()));
            assert!(line.is_some_and(|line| line.ends_with(&about)), "{command} is not in\n{help}");
        }
    }

    /// Runs of a shell: what stands behind ` | ` or ` > ` is none of ours.
    fn examples(help: &str) -> Vec<String> {
        let whole = help.replace("\\\n", " ");
        let lines = whole
            .lines()
            .filter_map(|line| line.strip_prefix("  weir ").or(line.strip_prefix("Example: weir ")));
        let ours = |line: &str| line.split(['|', '>']).next().unwrap_or_default().to_owned();
        lines.map(ours).collect()
    }

    #[test]
    fn the_help_has_an_example_of_every_command_that_is_a_command_line() {
        let cli = Cli::command();
        let above = |command: &Command| command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let listed = examples(&above(&cli));
        for command in cli.get_subcommands() {
            let name = command.get_name();
            let its_own = examples(&above(command));
            assert!(listed.iter().any(|line| line.split_whitespace().next() == Some(name)), "{name}");
            assert!(!its_own.is_empty(), "weir {name} --help has no example");
            for line in listed.iter().chain(&its_own) {
                let words = ["weir"].into_iter().chain(line.split_whitespace());
                Cli::command().try_get_matches_from(words).unwrap_or_else(|error| panic!("{line}: {error}"));
            }
        }
    }

    #[test]
    fn the_help_fits_a_terminal_of_80_columns() {
        let mut cli = Cli::command().term_width(80);
        cli.build();
        for command in [cli.clone()].into_iter().chain(cli.get_subcommands().cloned()) {
            let help = command.clone().render_long_help().to_string();
            let wide: Vec<_> = help.lines().filter(|line| line.chars().count() > 80).collect();
            assert!(wide.is_empty(), "{}: {wide:#?}", command.get_name());
        }
    }

    #[test]
    fn every_shell_gets_a_script_that_knows_the_subcommands() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "weir", &mut script);
            let text = String::from_utf8(script).expect("a script is text");
            assert!(text.contains("proxy") && text.contains("think-time"), "{shell}");
        }
    }

    #[test]
    fn the_command_line_is_described_without_contradiction() {
        Cli::command().debug_assert();
    }
}
