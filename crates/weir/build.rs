//! The commit that the command is built from, for `weir --version`, metrics and records: `WEIR_COMMIT` where it is set (a
//! package is built outside of a repository), else that of the repository, with `+changes` where tracked files differ.

#![allow(clippy::print_stdout, reason = "a build script speaks to cargo so")]

use std::{env, path::Path, process::Command};

fn main() {
    let commit = env::var("WEIR_COMMIT").ok().filter(|given| !given.is_empty()).or_else(of_repository);
    println!("cargo::rustc-env=WEIR_COMMIT={}", commit.as_deref().unwrap_or("unknown"));
    println!("cargo::rerun-if-env-changed=WEIR_COMMIT");
    for path in ["../../crates", "../../Cargo.toml", "../../Cargo.lock"] {
        println!("cargo::rerun-if-changed={path}");
    }
    // A commit changes the first, or what it names.
    let head = git(&["rev-parse", "--symbolic-full-name", "HEAD"]);
    for name in ["HEAD", "packed-refs"].into_iter().chain(head.as_deref()) {
        match git(&["rev-parse", "--git-path", name]) {
            Some(path) if Path::new(&path).exists() => println!("cargo::rerun-if-changed={path}"),
            _ => {}
        }
    }
}

fn of_repository() -> Option<String> {
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    let changes = git(&["status", "--porcelain", "--untracked-files=no"])?;
    Some(if changes.is_empty() { commit } else { format!("{commit}+changes") })
}

/// What git says; nothing where there is no git, or no repository.
fn git(words: &[&str]) -> Option<String> {
    let done = Command::new("git").args(words).output().ok().filter(|done| done.status.success())?;
    Some(String::from_utf8(done.stdout).ok()?.trim().to_owned())
}
