//! `weir load`'s command line, by the process itself.

use std::process::{Command, Output};

fn weir_load(words: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir"))
        .arg("load")
        .args(words.split_whitespace())
        .output()
        .expect("the binary was built for this test")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("what the command says is text")
}

#[test]
fn a_translated_line_is_printed_and_can_be_given_again() {
    let printed = weir_load(
        "--like memtier --print --server=127.0.0.1 --port=1 --protocol=memcache_text --clients=2 --threads=1 --test-time=1 \
         --ratio=1:6 --multi-key-get=6 --rate-limiting=10 --hide-histogram",
    );
    assert_eq!(printed.status.code(), Some(0));
    assert!(
        text(&printed.stderr).contains("note: --hide-histogram is left out"),
        "{}",
        text(&printed.stderr)
    );
    let line = text(&printed.stdout);
    let flags = line.trim_end().strip_prefix("weir load ").expect("the line begins with the command");
    // Nobody listens on port 1: that this is what fails shows that every flag was understood.
    for again in [flags.to_owned(), "--like memaslap -s 127.0.0.1:1 -T 1 -c 2 -t 1s -P 10 -w 1k".to_owned()] {
        let refused = weir_load(&again);
        assert_eq!(refused.status.code(), Some(1), "{again}: {}", text(&refused.stderr));
        assert!(
            text(&refused.stderr).contains("target 127.0.0.1:1: cannot open connection"),
            "{}",
            text(&refused.stderr)
        );
    }
}

#[test]
fn a_wrong_command_line_ends_with_two_and_says_why() {
    for (words, reason) in [
        (
            "--like memtier --protocol=redis",
            "weir: memtier --protocol redis: weir load speaks memcached's text protocol",
        ),
        ("--like ab", "weir: --like ab: the tools that are known are memtier and memaslap"),
        ("--target a:1 --mix fetch=1", "no command that can be sent"),
        ("--target a:1 --writes 2", "weir: --writes 2: must be a share"),
        ("--target a:1 --preset twitter-cluster5", "the published table does not give its operations"),
        ("--preset smallvalue", "weir: no target"),
        ("", "--target"),
    ] {
        let ended = weir_load(words);
        assert_eq!(ended.status.code(), Some(2), "{words}");
        assert!(text(&ended.stderr).contains(reason), "{words}: {}", text(&ended.stderr));
    }
}

#[test]
fn presets_are_listed() {
    let list = weir_load("--preset list");
    assert_eq!(list.status.code(), Some(0));
    assert!(
        text(&list.stdout).contains("twitter-cluster54 --mix get=0.97,set=0.03"),
        "{}",
        text(&list.stdout)
    );
}

#[test]
fn a_missing_trace_is_named() {
    let ended = weir_load("--target 127.0.0.1:1 --replay /nonexistent/trace");
    assert_eq!(ended.status.code(), Some(1));
    assert!(text(&ended.stderr).contains("/nonexistent/trace: No such file"), "{}", text(&ended.stderr));
}
